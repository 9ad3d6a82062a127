"""Tables and times of commands, on terminals of several widths and in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from crmhub.cli import output
from crmhub.cli.inputs import moment

_ID = "act-0mwvlbwdp03a4x8qmqdb8w4u"
_TITLES = ("ACTION", "STATE", "PERSON", "REASON")
_ROWS = (
    (
        _ID,
        "failed",
        "山田 太郎, taro@example.jp",
        "HubSpot answered 400: no such stage, nor pipeline",
    ),
    (_ID, "done", "Ada, ada@example.com", ""),
)
Printed = Callable[..., list[str]]


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Printed:
    """Print on a terminal of `columns`, or into a pipe, and return the lines."""

    def lines(write: Callable[..., None], *args: Any, columns: int = 0, **more: Any) -> list[str]:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: bool(columns), raising=False)
        monkeypatch.setenv("COLUMNS", str(columns or 20))
        write(*args, **more)
        return capsys.readouterr().out.splitlines()

    return lines


def _table(printed: Printed, columns: int = 0) -> list[str]:
    shorten = ("REASON", "PERSON")
    return printed(output.print_columns, _TITLES, _ROWS, shorten=shorten, columns=columns)


def test_a_pipe_gets_whole_cells_and_a_line_per_record(printed: Printed) -> None:
    title, first, second = _table(printed)
    assert first.endswith(_ROWS[0][3])
    assert title.split() == list(_TITLES)
    assert second.split() == [_ID, "done", "Ada,", "ada@example.com"]
    (_, line) = printed(output.print_columns, ("NAME",), [("a\nb\x1b[2J",)])
    assert line == "a b [2J"


@pytest.mark.parametrize("columns", [50, 60, 72, 80, 100, 120, 200])
def test_a_table_fits_the_terminal_and_keeps_its_ids_whole(printed: Printed, columns: int) -> None:
    lines = _table(printed, columns)
    assert max(map(output._width, lines)) <= columns
    assert "\n".join(lines).count(_ID) == 2
    for word in ("failed", "done", "山田"):
        assert word in "\n".join(lines)


def test_the_least_important_column_is_shortened_first(printed: Printed) -> None:
    line = _table(printed, 100)[1]
    assert line.endswith("…")
    assert _ROWS[0][2] in line
    line = _table(printed, 78)[1]
    assert line.count("…") == 2


def test_columns_without_room_follow_with_their_title(printed: Printed) -> None:
    title, first, reason, second = _table(printed, 62)
    assert title.split() == ["ACTION", "STATE", "PERSON"]
    assert first.endswith("…")
    assert reason.startswith("    reason: HubSpot answered 400")
    # An empty cell takes no line.
    assert second.startswith(_ID)


def test_an_empty_table_is_a_sentence_for_people_and_its_titles_for_programs(
    printed: Printed,
) -> None:
    assert printed(output.print_columns, _TITLES, [], columns=80) == ["There is nothing to list."]
    assert printed(output.print_columns, _TITLES, []) == ["  ".join(_TITLES)]


def test_long_values_go_on_below_their_begin(printed: Printed) -> None:
    fields = [
        ("CRM", "hubspot, base_url=http://127.0.0.1:8181, access_token (secret)"),
        ("Id", _ID),
    ]
    lines = printed(output.print_fields, fields, columns=50)
    assert [line[:5] for line in lines] == ["CRM  ", "     ", "Id   "]
    assert "access_token" in lines[1]
    assert len(printed(output.print_fields, fields)) == 2


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def use(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield use
    monkeypatch.undo()
    time.tzset()


def test_times_are_of_the_machines_zone_and_can_be_typed_again(zone: Callable[[str], None]) -> None:
    at = 1_795_680_000_000
    for name, text in (
        ("UTC", "2026-11-26 08:00:00+00:00"),
        ("Europe/Madrid", "2026-11-26 09:00:00+01:00"),
        ("Asia/Kolkata", "2026-11-26 13:30:00+05:30"),
    ):
        zone(name)
        assert output.in_words(at) == text
        # Without its offset, a time is local, too.
        assert moment(text) == moment(text[:-6]) == at
        assert output.iso(at) == "2026-11-26T08:00:00.000Z"
