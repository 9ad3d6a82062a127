"""Write the package of a new adapter from the template in `crmhub/adapter/skeleton`.

The template is a working package for a CRM named acme; only this name is replaced.
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
_MAX_NAME_LENGTH = 30


class InvalidTarget(ValueError):
    """The new adapter's name or directory cannot be used; the message says why and what to do."""


def write(name: str, directory: Path, *, taken: Iterable[str]) -> None:
    """Write the package of a new adapter into a new or empty directory.

    `taken`: the names of the installed adapters. Raises InvalidTarget for a bad name or directory.
    """
    _check_name(name, taken)
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise InvalidTarget(
                f"{directory} is not empty; name a new or empty directory with --to."
            )
        _write_atomically(name, directory)
    except OSError as exc:
        raise InvalidTarget(f"{directory} cannot be written: {exc.strerror}.") from exc


def _check_name(name: str, taken: Iterable[str]) -> None:
    if not _NAME.fullmatch(name) or len(name) > _MAX_NAME_LENGTH:
        raise InvalidTarget(
            f"{name[: 2 * _MAX_NAME_LENGTH]!r} is not a valid adapter name: use lower-case letters"
            " and digits, words joined by - or _, a letter first,"
            f" {_MAX_NAME_LENGTH} characters at most."
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise InvalidTarget(f"{name!r} is a word of Python's own; take another name.")
    for other in taken:
        # Package names that differ only in - and _ are the same distribution.
        if other.replace("-", "_") == name.replace("-", "_"):
            raise InvalidTarget(
                f"An adapter named {other!r} is installed already; take another name."
            )


def _write_atomically(name: str, directory: Path) -> None:
    """Write all files by way of a temporary directory, or none on an error."""
    is_new = not directory.exists()
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
        # Also after Ctrl-C: a half-written directory looks like a package.
        shutil.rmtree(directory if is_new else draft, ignore_errors=True)
        raise


def _files(name: str) -> Iterator[tuple[str, str]]:
    """Yield the relative path and the text of each file of the new package."""
    for path, source in _sources(files("crmhub.adapter") / "skeleton"):
        yield _rename_acme(path, name), _rename_acme(source.read_text(encoding="utf-8"), name)


def _sources(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        path = f"{above}{entry.name}"
        if entry.is_file():
            yield path, entry
        elif entry.name != "__pycache__":
            yield from _sources(entry, f"{path}/")


def _rename_acme(text: str, name: str) -> str:
    """Replace the name acme, also as part of module names, class names and titles."""
    word = "".join(part.capitalize() for part in re.split("[-_]", name))
    text = text.replace("_acme", f"_{name.replace('-', '_')}").replace("Acme", word)
    return text.replace("acme", name)
