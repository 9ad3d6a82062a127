"""What is personal or secret stays where it belongs: not in log, metrics or audit log, and of
secrets nothing at all in a stolen database."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.api.planted import EMAIL
from tests.operators.traces import forms
from tests.own_databases import KINDS, own_database


@dataclass(frozen=True)
class Left:
    """What a process left behind while it was called, and what was planted in those calls."""

    log: str
    metrics: bytes
    audit: bytes
    pages: bytes
    dump: bytes
    secrets: list[str]
    personal: list[str]
    ids: list[str]
    requests: int

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.splitlines()]

    @property
    def planted(self) -> list[str]:
        return [*self.secrets, *self.personal, *self.ids]


@pytest.fixture(scope="module", params=KINDS)
def left(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Left]:
    """What requests full of personal data and secrets leave, on a database of their own."""
    root = tmp_path_factory.mktemp("planted")
    with own_database(request.param, root) as url:
        done = subprocess.run(
            [sys.executable, "-m", "tests.api.planted", url, str(root)],
            cwd=Path(__file__).parents[2],
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        files = {name: (root / name).read_bytes() for name in ("metrics", "audit", "pages", "dump")}
        yield Left(log=done.stderr, **files, **json.loads(done.stdout))


def found(planted: list[str], text: bytes) -> list[str]:
    """Return what stands in a text: clear, escaped, url-encoded, in hex, in base64."""
    text = text.lower()
    return [thing for thing in planted if any(form in text for form in forms(thing))]


@pytest.mark.parametrize("before", range(3))
def test_whatever_form_it_has_it_would_be_found(before: int) -> None:
    secret = "pat-Planted+secret/1"
    raw = b"x" * before + secret.encode() + b"yz"
    for text in (
        raw,
        raw.hex().encode(),
        raw.hex().upper().encode(),
        base64.b64encode(raw),
        base64.urlsafe_b64encode(raw),
        json.dumps({"a": raw.decode()}).encode(),
    ):
        assert found([secret], b"before " + text + b" after") == [secret]
        assert found([secret + "?"], text) == []


def test_no_log_line_holds_personal_data_or_a_secret(left: Left) -> None:
    assert found(left.planted, left.log.encode()) == []


def test_no_metric_holds_personal_data_or_a_secret(left: Left) -> None:
    assert b"crmhub_attempt_duration_seconds" in left.metrics
    assert found(left.planted, left.metrics) == []


def test_no_entry_of_the_audit_log_holds_personal_data_or_a_secret(left: Left) -> None:
    entries = json.loads(left.audit)
    told = {f"{one['verb']} {one['object']}" for one in entries}
    assert told >= {"change connection", "change fieldMap", "create key", "rotate webhookId"}
    # What an operator has written into the field map is theirs, whatever they choose.
    told = [one for one in entries if one["object"] != "fieldMap"]
    assert found(left.planted, json.dumps(told).encode()) == []


def test_no_page_of_the_console_holds_a_secret(left: Left) -> None:
    pages = json.loads(left.pages)
    ends = {path.partition("?")[0].rpartition("/")[2] for path in pages}
    assert ends >= {"crm", "bots", "keys", "properties", "field-map", "charts", "audit", "contacts"}
    assert any("/activity/act-" in path for path in pages)
    # What bots have sent is what the pages are for.
    assert found([EMAIL], left.pages) == [EMAIL]
    assert found(left.secrets, left.pages) == []


def test_a_stolen_database_holds_no_secret(left: Left) -> None:
    assert len(left.secrets) > 15
    assert found(left.secrets, left.dump) == []
    # It is the whole database, and none of an empty one: the product itself is there.
    assert found(left.personal, left.dump) == left.personal
    assert b"v1.k1." in left.dump


def test_every_request_has_one_line_in_the_log(left: Left) -> None:
    requests = [line for line in left.lines if line["event"] == "request"]
    assert len(requests) == len({line["request_id"] for line in requests}) == left.requests
    assert {line["status"] for line in requests} >= {200, 201, 400, 401, 404, 409, 422, 500}
    assert {line["route"] for line in requests} >= {None, "/<client_id>/api/v1/contacts"}


def test_a_crash_is_in_the_log_with_its_place(left: Left) -> None:
    crashes = [line for line in left.lines if line["event"] == "unexpected failure"]
    assert "RuntimeError" in {line["error"] for line in crashes}
    requests = {line["request_id"]: line["status"] for line in left.lines if "status" in line}
    for crash in crashes:
        assert requests[crash["request_id"]] == 500
        # Of our own code, or of the test that crashes.
        assert any("crmhub/" in place or "planted.py" in place for place in crash["place"])
