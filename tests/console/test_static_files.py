"""Styles, scripts and images: compressed, cached for a year by their digest, revalidated else."""

from __future__ import annotations

import gzip
import re

import pytest

from crmhub.api.http.static_files import StaticFile, StaticFiles

pytestmark = pytest.mark.databases("sqlite")

FILES = ["/console/static/console.css", "/bootstrap/static/css/bootstrap.min.css"]
GZIP = {"Accept-Encoding": "gzip, br"}


def versioned(operator):
    text = operator.get("/accounts/new").text
    return re.findall(r'(?:src|href)="([^"]*/static/[^"]*)"', text)


def test_each_file_of_a_page_is_cached_for_a_year(app, operator):
    addresses = versioned(operator)
    assert len(addresses) >= 4
    for address in addresses:
        answer = app.test_client().get(address)
        assert answer.status_code == 200
        assert answer.headers["Cache-Control"] == "public, max-age=31536000, immutable"
        assert "Cookie" not in answer.headers.get("Vary", "")
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("version", ["", "?v=", "?v=0123456789abcdef0123"])
def test_a_file_of_another_release_is_revalidated(app, path, version):
    answer = app.test_client().get(f"{path}{version}")
    assert answer.headers["Cache-Control"] == "no-cache"
    again = app.test_client().get(path, headers={"If-None-Match": answer.headers["ETag"]})
    assert (again.status_code, again.data) == (304, b"")
    assert again.headers["ETag"] == answer.headers["ETag"]


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_compressed_for_who_takes_gzip(app, path):
    client = app.test_client()
    plain, packed = client.get(path), client.get(path, headers=GZIP)
    assert "Content-Encoding" not in plain.headers
    assert packed.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.data) == plain.data
    assert len(packed.data) < len(plain.data) / 2
    assert plain.headers["Vary"] == packed.headers["Vary"] == "Accept-Encoding"
    assert plain.headers["ETag"] != packed.headers["ETag"]
    assert client.get(path, headers={"Accept-Encoding": "gzip;q=0"}).data == plain.data
    given = {**GZIP, "If-None-Match": packed.headers["ETag"]}
    unchanged = client.get(path, headers=given)
    assert (unchanged.status_code, unchanged.headers["Vary"]) == (304, "Accept-Encoding")


@pytest.mark.parametrize(
    "path", ["/console/static/..%2fblueprint.py", "/bootstrap/static/css/bootstrap-grid.css"]
)
def test_no_other_file_is_served(app, path):
    assert app.test_client().get(path).status_code == 404


def test_a_digest_follows_the_content_alone(tmp_path):
    digests = []
    for folder, text in (("one", "a { }"), ("two", "a { }"), ("three", "b { }")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.css").write_text(text)
        digests.append(StaticFiles(tmp_path / folder).digest("a.css"))
    assert digests[0] == digests[1] != digests[2]


def test_what_gzip_would_make_larger_is_sent_as_it_is(tmp_path):
    (tmp_path / "a.css").write_text("a{}")
    (tmp_path / "a.png").write_bytes(b"\0" * 1000)
    assert StaticFile.load(tmp_path / "a.css").gzipped is None
    assert StaticFile.load(tmp_path / "a.png").gzipped is None
