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


def test_what_excel_for_windows_writes_is_found(tmp_path):
    sheet = _sheet(tmp_path, "email;note\na@b.co;Grüße aus Besançon – 5 €\n".encode("cp1252"))
    assert (sheet.encoding, sheet.delimiter) == ("cp1252", ";")
    assert [row.cells[1] for row in sheet.read(sheet.start)] == ["Grüße aus Besançon – 5 €"]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_found_and_read_from_any_row(tmp_path, encoding):
    # U+0A0A, U+0A05 and U+010A contain the byte of a line break.
    notes = ["Grüße", "\u0a0a\u0a05\u010a", "two\nlines", "日本語"]
    text = "email\tnote\r\n" + "".join(f'a@b.co\t"{note}"\r\n' for note in notes)
    sheet = _sheet(tmp_path, text.encode(encoding))
    rows = list(sheet.read(sheet.start))
    assert sheet.header == ["email", "note"]
    assert [row.cells[1] for row in rows] == notes
    assert [row.line for row in rows] == [2, 3, 4, 6]
    assert list(sheet.read(rows[1].end)) == rows[2:]
    assert rows[-1].end.bytes == sheet.size


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Müller, Straße", "mac_roman"),
        ("Müller", "cp850"),
        ("Paweł", "cp1250"),
        ("Dvořák, Němec", "cp1250"),
        ("Erdős, Müller", "cp1250"),
        ("Иванов", "cp1251"),
        ("Şükrü, Çağlar", "cp1254"),
    ],
)
def test_an_encoding_that_cannot_be_known_is_not_guessed(tmp_path, text, encoding):
    content = f'email,note\na@b.co,x\nc@d.co,"{text}"\n'.encode(encoding)
    with pytest.raises(BadRequest, match="line 3: the file is not UTF-8") as refused:
        _sheet(tmp_path, content)
    assert "Name the right encoding with --encoding" in refused.value.message
    sheet = _sheet(tmp_path, content, encoding=encoding)
    assert [row.cells[1] for row in sheet.read(sheet.start)] == ["x", text]


@pytest.mark.parametrize(
    "text", ["João Simões", "Ångström, Sørensen", "sœur, Noël", "¿Qué? Ñuñoa", "18 m² à 5 °C"]
)
def test_names_of_western_europe_are_cp1252(tmp_path, text):
    sheet = _sheet(tmp_path, f'email,note\na@b.co,"{text}, Müller"\n'.encode("cp1252"))
    assert [row.cells[1] for row in sheet.read(sheet.start)] == [f"{text}, Müller"]


def test_a_delimiter_inside_of_cells_is_no_delimiter(tmp_path):
    sheet = _sheet(tmp_path, '"name, first";email;city\nLee;a@b.co;"x,y"\n')
    assert sheet.header == ["name, first", "email", "city"]
    with pytest.raises(BadRequest, match="separated by semicolon or comma; name the character"):
        _sheet(tmp_path, "a;b,c\n1;2,3\n")


def test_the_line_with_which_excel_names_the_delimiter_is_skipped(tmp_path):
    sheet = _sheet(tmp_path, "sep=;\r\nemail;note\r\na@b.co;1,5\r\n")
    assert sheet.header == ["email", "note"]
    assert [(row.line, row.cells[1]) for row in sheet.read(sheet.start)] == [(3, "1,5")]


@pytest.mark.parametrize("encoding", ["utf-8", "UTF_8", "utf-8-sig"])
def test_utf_8_may_begin_with_its_mark_by_whatever_name(tmp_path, encoding):
    content = "email\na@b.co\n".encode("utf-8-sig")
    assert _sheet(tmp_path, content, encoding=encoding).header == ["email"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty; its first line names the columns"),
        (b"\xef\xbb\xbfemail\n\xff\xfe\n", "line 2: this is not utf-8"),
        ("email\n".encode("utf-32"), "is in UTF-32. Save it as CSV in UTF-8"),
        (b"PK\x03\x04\x14", "is an Excel workbook or another zip file. Save it as CSV"),
        (b"email\0\0,x\n", "is no text file"),
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
