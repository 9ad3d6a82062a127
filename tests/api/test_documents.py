"""What /docs serves: the built documents, the API reference, and nothing else."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote, urldefrag, urljoin

import flask
import pytest
from werkzeug.test import TestResponse

from crmhub.api import documents
from crmhub.api.http.document import PATHS
from hatch_build import ROOT, build

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
_LINK = re.compile(r'<(?:a|link|script|img)\b[^>]*?\s(?:href|src)="([^"]+)"')
_LOADED = re.compile(r'<(?:link|script|img)\b[^>]*?\s(?:href|src)="([^"]+)"')
_INLINE = re.compile(r"<script>|<style|\sstyle=|\son\w+=", re.IGNORECASE)

pytestmark = pytest.mark.databases("sqlite")


def get(app: flask.Flask, path: str, **headers: str) -> TestResponse:
    return app.test_client().get(path, headers={**BROWSER, **headers}, buffered=True)


def built() -> list[str]:
    """Return the addresses of all built pages."""
    pages = documents.BUILT.rglob("index.html")
    return [f"/docs/{page.parent.relative_to(documents.BUILT).as_posix()}/" for page in pages]


def test_every_page_is_served_with_a_strict_policy(app: flask.Flask) -> None:
    assert len(built()) > 40
    for path in built():
        page = get(app, normpath(path) + "/")
        assert (page.status_code, page.mimetype) == (200, "text/html"), path
        policy = page.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert not _INLINE.search(page.text), path


def test_every_link_leads_somewhere(app: flask.Flask) -> None:
    found = {}
    for path in [*map(normpath, built()), "/docs/api/public", "/docs/api/admin"]:
        base = f"{path.rstrip('/')}/"
        for link in _LINK.findall(get(app, base).text):
            address = urldefrag(urljoin(base, link))[0]
            if not re.match(r"(?:https?|mailto|data):", address):
                found[unquote(address)] = path
    assert len(found) > 60
    for address, path in found.items():
        assert get(app, address).status_code == 200, f"{path} leads to {address}"


def test_nothing_is_loaded_from_another_host(app: flask.Flask) -> None:
    for path in [*map(normpath, built()), "/docs/api/public", "/docs/api/admin"]:
        loaded = _LOADED.findall(get(app, f"{path}/").text)
        assert loaded
        assert not [address for address in loaded if "//" in address], path
    for file in documents.BUILT.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", file.read_text("utf-8"))


@pytest.mark.parametrize("path", ["/docs", "/docs/operator", "/docs/integrator/paging"])
def test_a_page_without_slash_redirects(app: flask.Flask, path: str) -> None:
    answer = get(app, path)
    assert (answer.status_code, answer.headers["Location"]) == (308, f"{path}/")


def test_files_are_cached_and_asked_for_again(app: flask.Flask) -> None:
    page = get(app, "/docs/")
    assert page.headers["Cache-Control"] == "no-cache"
    again = get(app, "/docs/", **{"If-None-Match": page.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    [style] = re.findall(r'href="(assets/stylesheets/main\.[^"]+\.css)"', page.text)
    file = get(app, f"/docs/{style}")
    assert (file.mimetype, file.status_code) == ("text/css", 200)
    assert "immutable" in file.headers["Cache-Control"]
    index = get(app, "/docs/search/search_index.json")
    assert (index.mimetype, index.headers["Cache-Control"]) == ("application/json", "no-cache")


@pytest.mark.parametrize(
    "path",
    [
        "/docs/",
        "/docs/search/search_index.json",
        "/docs/api/files/swagger-ui-bundle.js",
        "/docs/api/files/swagger-ui.css",
        "/docs/api/public.json",
        "/docs/api/admin.json",
        "/openapi.json",
    ],
)
def test_files_are_compressed_and_unchanged_ones_are_not_sent_again(
    app: flask.Flask, path: str
) -> None:
    plain, packed = get(app, path), get(app, path, **{"Accept-Encoding": "gzip, br"})
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == plain.data
    assert len(packed.data) < len(plain.data) / 2
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["Cache-Control"] == packed.headers["Cache-Control"] == "no-cache"
    for answer, accepted in ((plain, "identity"), (packed, "gzip, br")):
        given = {"Accept-Encoding": accepted, "If-None-Match": answer.headers["ETag"]}
        again = get(app, path, **given)
        assert (again.status_code, again.data) == (304, b"")


def test_a_document_that_was_built_again_is_served_anew(
    app: flask.Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(app.extensions, "crmhub-documents", tmp_path)
    (tmp_path / "index.html").write_text("before")
    before = get(app, "/docs/")
    (tmp_path / "index.html").write_text("behind")
    os.utime(tmp_path / "index.html", ns=(1, 1))
    behind = get(app, "/docs/", **{"If-None-Match": before.headers["ETag"]})
    assert (before.text, behind.status_code, behind.text) == ("before", 200, "behind")


@pytest.mark.parametrize("part", ["public", "admin"])
def test_the_files_of_the_reference_are_cached_for_a_year(app: flask.Flask, part: str) -> None:
    page = get(app, f"/docs/api/{part}/")
    files = [link for link in _LOADED.findall(page.text) if "/files/" in link]
    assert len(set(files)) == 6
    for link in files:
        file = get(app, urljoin(f"/docs/api/{part}/", link))
        assert file.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert "Content-Security-Policy" in file.headers


@pytest.mark.parametrize(
    "path",
    [
        "/docs/none/",
        "/docs/none.js",
        "/docs/../app.py",
        "/docs/%2e%2e/__init__.py",
        "/docs/..%2f__init__.py",
        "/docs//etc/passwd",
        "/docs/operator/../../app.py/",
        "/docs/assets/",
        "/docs/api/files/index.css",
        "/docs/api/files/..%2freference.py",
        "/docs/api/none/",
        f"/docs/{'x' * 300}",
        f"/docs/{'x/' * 3000}",
    ],
)
def test_nothing_else_is_served(app: flask.Flask, path: str) -> None:
    answer = app.test_client().get(path)
    assert (answer.status_code, answer.mimetype) == (404, "application/json")
    assert get(app, path).status_code == 404


def test_a_browser_gets_a_page_for_errors(app: flask.Flask) -> None:
    answer = get(app, "/docs/none/at/all")
    assert (answer.status_code, answer.mimetype) == (404, "text/html")
    assert "Page not found" in answer.text
    assert not _INLINE.search(answer.text)
    for address in _LOADED.findall(answer.text):
        assert get(app, address).status_code == 200, address


def test_missing_documents_are_told(
    app: flask.Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(app.extensions, "crmhub-documents", tmp_path)
    told = get(app, "/docs/")
    assert (told.status_code, told.mimetype) == (503, "text/plain")
    assert "make docs" in told.text
    assert app.test_client().get("/docs/").json["category"] == "InternalError"  # type: ignore[index]
    assert get(app, "/docs/api/public/").status_code == 200


def test_the_same_pages_give_the_same_files(tmp_path: Path) -> None:
    for name in ("docs", "mkdocs.yml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "crmhub").mkdir()
    (tmp_path / "crmhub" / "console").symlink_to(ROOT / "crmhub" / "console")
    build(tmp_path)
    for file in documents.BUILT.rglob("*"):
        again = tmp_path / "crmhub" / "documents" / file.relative_to(documents.BUILT)
        assert file.is_dir() or file.read_bytes() == again.read_bytes(), file


@pytest.mark.parametrize("part", ["public", "admin"])
def test_the_reference_shows_its_part_of_the_document(app: flask.Flask, part: str) -> None:
    page = get(app, f"/docs/api/{part}/")
    assert not _INLINE.search(page.text)
    assert f'data-document="../{part}.json"' in page.text
    shown = app.test_client().get(f"/docs/api/{part}.json").json
    whole = app.test_client().get(PATHS[part]).json
    assert shown is not None
    assert whole is not None
    assert shown.pop("servers") == [{"url": "/"}]
    assert shown.items() < whole.items()
    assert {path.startswith("/admin/") for path in shown["paths"]} == {part == "admin"}
    references = set(re.findall(r'"#/components/(\w+)/([^"]+)"', flask.json.dumps(shown)))
    for group, name in references:
        assert shown["components"][group][name] == whole["components"][group][name]
    schemes = {"public": {"ApiKey"}, "admin": {"AdminToken"}}
    assert shown["components"]["securitySchemes"].keys() == schemes[part]
