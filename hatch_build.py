"""Build the documents and the catalogues of translations.

The pages of docs/ become crmhub/documents, from where /docs serves them; each catalogue of
crmhub/translations becomes the file beside it that gettext reads.

Hatch runs this for every wheel and every editable installation; `make docs` runs it as a program.
The same sources give the same files. Raises what MkDocs raises: also for a broken link.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryDirectory
from typing import Any

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
TARGET = Path("crmhub", "documents")
_TRANSLATIONS = "crmhub/translations"
_THEME = Path("crmhub", "console", "static", "theme.css")
_SOURCES = ("docs", "mkdocs.yml", "hatch_build.py", _THEME)
# MkDocs writes the time of the build into files; this one is the same for every build.
_TIME = "1767225600"
_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
# `site_url` gives the page for errors absolute links; its host must not be in the pages.
_CANONICAL = re.compile(r'\s*<link rel="canonical" href="[^"]*">')
_NOT_FOUND = """<h1>Page not found</h1>
<p>Search for a word of it, or begin at the <a href="/docs/">overview</a>.</p>"""


class DocumentsHook(BuildHookInterface):  # type: ignore[type-arg]
    """Hatch's build hook: puts what was built into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        build_if_changed(Path(self.root))
        build_data["artifacts"] += [f"/{TARGET.as_posix()}/**", f"/{_TRANSLATIONS}/**/*.mo"]


def build_if_changed(root: Path = ROOT) -> None:
    """Build what the clone at `root` needs, unless it is newer than its sources."""
    for catalogue in (root / _TRANSLATIONS).rglob("*.po"):
        compiled = catalogue.with_suffix(".mo")
        if not compiled.exists() or compiled.stat().st_mtime < catalogue.stat().st_mtime:
            _compile(catalogue, compiled)
    built = root / TARGET / "index.html"
    if not built.exists() or built.stat().st_mtime < _changed(root):
        build(root)


def _compile(catalogue: Path, compiled: Path) -> None:
    """Another process may compile or read the same file: it is put in its place as a whole."""
    with NamedTemporaryFile(dir=catalogue.parent, delete=False) as file:
        write_mo(file, read_po(BytesIO(catalogue.read_bytes()), locale=catalogue.parts[-3]))
    Path(file.name).chmod(0o644)
    Path(file.name).rename(compiled)


def _changed(root: Path) -> float:
    """Return when a source was last changed, in seconds since 1970."""
    sources = [root / name for name in _SOURCES]
    # A directory's time tells of deleted pages.
    return max(path.stat().st_mtime for path in [*sources, *(root / "docs").rglob("*")])


def build(root: Path = ROOT) -> None:
    """Build the documents of the clone at `root`, and put them in the place of the former ones."""
    os.environ.setdefault("SOURCE_DATE_EPOCH", _TIME)
    # Material for MkDocs prints what it thinks of MkDocs 2.
    os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config

    log = logging.getLogger("mkdocs")
    log.setLevel(logging.WARNING)
    if not log.hasHandlers():
        # MkDocs gives its log a handler in its own command alone: a broken link would not be named.
        log.addHandler(logging.StreamHandler())
    (root / "build").mkdir(exist_ok=True)
    with TemporaryDirectory(dir=root / "build", prefix="documents-") as directory:
        site, former = Path(directory, "site"), Path(directory, "former")
        build_site(load_config(str(root / "mkdocs.yml"), site_dir=str(site)))
        shutil.copy(root / _THEME, site / "assets" / "theme.css")
        _finish(site)
        target = root / TARGET
        with suppress(FileNotFoundError):
            target.rename(former)
        try:
            site.rename(target)
        except OSError:
            # Another build was quicker; its documents are the same.
            if not target.exists():
                raise


def _finish(site: Path) -> None:
    """Delete files that nobody requests, name the dialog, and move inline scripts into files.

    The Content-Security-Policy of /docs allows no inline script.
    """
    for path in [*site.glob("sitemap.xml*"), *site.rglob("*.map")]:
        path.unlink()
    # The search in other languages than English.
    shutil.rmtree(site / "assets" / "javascripts" / "lunr")
    scripts = site / "assets" / "inline"
    scripts.mkdir()
    for page in sorted(site.rglob("*.html")):
        depth = len(page.relative_to(site).parts) - 1
        base = "/docs/" if page.name == "404.html" else "../" * depth
        text = _CANONICAL.sub("", page.read_text("utf-8"))
        text = text.replace("<h1>404 - Not found</h1>", _NOT_FOUND)
        # The theme gives its dialog for the search no name.
        text = text.replace('role="dialog">', 'role="dialog" aria-label="Search">')
        for script in _INLINE.findall(text):
            text = text.replace(f"<script>{script}</script>", _to_file(script, scripts, base))
        page.write_text(text, "utf-8")


def _to_file(script: str, scripts: Path, base: str) -> str:
    """Store an inline script in the directory `scripts`, and return the element that loads it.

    `base` is the address of the site's root.
    """
    name = f"{hashlib.sha256(script.encode()).hexdigest()[:8]}.js"
    (scripts / name).write_text(script, "utf-8")
    return f'<script src="{base}assets/inline/{name}"></script>'


if __name__ == "__main__":
    build_if_changed()
