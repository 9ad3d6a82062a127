"""CSV as spreadsheets write it: formulas, delimiters, encodings, and what is no CSV at all."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crmhub.csv.spreadsheets import Position, Sheet, escape_formula, unescape_formula
from crmhub.errors import BadRequest


def _sheet(tmp_path: Path, content: bytes | str, **how: str) -> Sheet:
    path = tmp_path / "people.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Sheet(path, **how)


def test_what_a_spreadsheet_would_carry_out_begins_with_an_apostrophe():
    for value in [
        "=1+1",
        "@SUM(A1)",
        "+cmd|' /C calc'!A0",
        "-2+3",
        "\t=1",
        "\r=1",
        "'=1",
        "＝1",
        "＋a",
    ]:
        assert escape_formula(value) == f"'{value}"
        assert unescape_formula(escape_formula(value)) == value


def test_what_carries_nothing_out_stays_as_it_is():
    for value in ["", "Ada", "-5", "+12025550101", "-0.5", "'tis", "a=1", "1-2"]:
        assert escape_formula(value) == value == unescape_formula(value)


@given(st.text(alphabet="'=+-@\t\r＝a1 ", max_size=6))
def test_every_value_comes_back(value):
    assert unescape_formula(escape_formula(value)) == value


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path, delimiter):
    sheet = _sheet(tmp_path, f"email{delimiter}first name\na@b.co{delimiter}Ada\n")
    assert sheet.header == ["email", "first name"]
    assert [row.cells for row in sheet.read(sheet.start)] == [["a@b.co", "Ada"]]


def test_a_byte_order_mark_is_no_part_of_the_first_title(tmp_path):
    assert _sheet(tmp_path, b"\xef\xbb\xbfemail\r\na@b.co\r\n").header == ["email"]


def test_reading_goes_on_behind_any_row(tmp_path):
    sheet = _sheet(tmp_path, 'email,note\na@b.co,"two\nlines"\n\n,\nc@d.co,"ü; ""quoted"""\n')
    rows = list(sheet.read(sheet.start))
    assert sheet.rows == 2
    assert [(row.line, row.cells[1]) for row in rows] == [(2, "two\nlines"), (6, 'ü; "quoted"')]
    again = list(sheet.read(rows[0].end))
    assert again == rows[1:]
    assert list(sheet.read(rows[-1].end)) == []
    assert rows[-1].end == Position(sheet.size, 6)


def test_other_encodings_can_be_named(tmp_path):
    content = "email;note\na@b.co;Grüße\n".encode("cp1252")
    with pytest.raises(BadRequest, match=r"people.csv, line 2: this is not utf-8.*--encoding"):
        _sheet(tmp_path, content)
    sheet = _sheet(tmp_path, content, encoding="cp1252")
    assert [row.cells[1] for row in sheet.read(sheet.start)] == ["Grüße"]


@pytest.mark.parametrize("encoding", ["utf-8", "UTF_8", "utf-8-sig"])
def test_utf_8_may_begin_with_its_mark_by_whatever_name(tmp_path, encoding):
    content = "email\na@b.co\n".encode("utf-8-sig")
    assert _sheet(tmp_path, content, encoding=encoding).header == ["email"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty; its first line names the columns"),
        (b"email\n\xff\xfe\n", "line 2: this is not utf-8"),
        ("email\n".encode("utf-16"), "is in UTF-16. Save it as CSV in UTF-8"),
        (b'email,note\na@b.co,"never closed\n', "line 2: a quote is never closed."),
        (b'email,note\na@b.co,"a"b\n', "line 2: a quote inside a quoted cell must be doubled."),
        (b"email,note\na@b.co," + b"x" * (2 << 20), "line 2: a cell is longer than 1 MiB"),
    ],
)
def test_what_is_no_csv_is_refused_before_anything_is_read(tmp_path, content, words):
    with pytest.raises(BadRequest) as refused:
        _sheet(tmp_path, content)
    assert words in refused.value.message
    assert csv.field_size_limit() < 2 << 20
