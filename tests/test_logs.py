"""Log lines: text on a terminal, JSON elsewhere, and no value can pass for a line of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from crmhub import logs
from tests.cli.conftest import environment

_CODE = """
import logging, structlog
from crmhub import logs
logs.configure("info")
structlog.get_logger().info("request", method="GET", status=200, request_id="r1")
logging.getLogger("library").warning("The disk is %s.", "full")
"""


def logged(stderr):
    subprocess.run(
        [sys.executable, "-c", _CODE], env=environment(), stderr=stderr, check=True, timeout=60
    )


def test_elsewhere_each_line_is_json(tmp_path):
    with (tmp_path / "log").open("wb") as file:
        logged(file)
    request, disk = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert (request["event"], request["status"], request["request_id"]) == ("request", 200, "r1")
    assert (disk["event"], disk["level"]) == ("The disk is full.", "warning")


def test_on_a_terminal_each_line_is_text():
    ours, theirs = os.openpty()
    logged(theirs)
    os.close(theirs)
    lines = [line[9:] for line in os.read(ours, 10_000).decode().splitlines()]
    os.close(ours)
    assert lines == [
        "INFO    request method=GET status=200",
        "WARNING The disk is full. logger=library",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("/<client_id>/x", "/<client_id>/x"),
        ("two words", '"two words"'),
        ("a=b", '"a=b"'),
        ("", '""'),
        ("x\n12:00:00 INFO", '"x\\n12:00:00 INFO"'),
        ("\x1b[31m\x9b", '"\\u001b[31m\\u009b"'),
        (1.5, "1.5"),
        (None, "null"),
        (["a b", "\x07"], '["a b", "\\u0007"]'),
    ],
)
def test_a_value_cannot_pass_for_another_one_or_steer_the_terminal(value, shown):
    entry = {"event": "e", "level": "error", "timestamp": "2026-01-02T03:04:05Z", "value": value}
    assert logs.as_text(None, "", entry).endswith(f" ERROR   e value={shown}")
