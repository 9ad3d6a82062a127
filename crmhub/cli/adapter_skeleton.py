"""A new adapter's package, written from the one in `crmhub/adapter/skeleton`.

That one is a package as it stands, for a CRM named acme; only the name is replaced.
"""

from __future__ import annotations

import keyword
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

_NAME = re.compile(r"[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*", re.ASCII)
_LONGEST = 30


class Unfit(ValueError):
    """The name or the directory cannot be used; the text says why and what would do."""


def write(name: str, directory: Path, *, taken: Iterable[str]) -> None:
    """Write the package of an adapter into a directory that is not there yet, or empty.

    `taken` are the names that no new adapter may have. Raises Unfit, and then nothing is written.
    """
    _check_name(name, taken)
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise Unfit(f"{directory} is not empty; name a new or empty directory with --to.")
        _place(name, directory)
    except OSError as exc:
        raise Unfit(f"{directory} cannot be written: {exc.strerror}.") from exc


def _check_name(name: str, taken: Iterable[str]) -> None:
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        raise Unfit(
            f"{name[: 2 * _LONGEST]!r} is no name for an adapter: take lower-case letters and"
            f" digits, words joined by - or _, a letter first, {_LONGEST} characters at most."
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise Unfit(f"{name!r} is a word of Python's own; take another name.")
    for other in taken:
        # Distributions are one and the same with - and with _.
        if other.replace("-", "_") == name.replace("-", "_"):
            raise Unfit(f"An adapter named {other!r} is installed already; take another name.")


def _place(name: str, directory: Path) -> None:
    """Write all files beside their places, then put them there: all of them or none."""
    made = not directory.exists()
    directory.mkdir(exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=directory, prefix=".draft-"))
    try:
        for path, text in _files(name):
            (draft / path).parent.mkdir(parents=True, exist_ok=True)
            (draft / path).write_text(text, encoding="utf-8")
        for entry in list(draft.iterdir()):
            entry.rename(directory / entry.name)
        draft.rmdir()
    except BaseException:
        # Interrupted, too: what is half written looks like a package.
        shutil.rmtree(directory if made else draft, ignore_errors=True)
        raise


def _files(name: str) -> Iterator[tuple[str, str]]:
    """Yield path and text of each file of the package."""
    for path, source in _sources(files("crmhub.adapter") / "skeleton"):
        yield _renamed(path, name), _renamed(source.read_text(encoding="utf-8"), name)


def _sources(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        path = f"{above}{entry.name}"
        if entry.is_file():
            yield path, entry
        elif entry.name != "__pycache__":
            yield from _sources(entry, f"{path}/")


def _renamed(text: str, name: str) -> str:
    """Return a text about acme as one about another CRM: modules, classes, then the name itself."""
    word = "".join(part.capitalize() for part in re.split("[-_]", name))
    text = text.replace("_acme", f"_{name.replace('-', '_')}").replace("Acme", word)
    return text.replace("acme", name)
