"""CSV as spreadsheets write it: delimiters, line ends, columns, and invalid files."""

from __future__ import annotations

import csv
import tracemalloc
from pathlib import Path

import pytest

from crmhub.csv.spreadsheets import Position, Sheet
from crmhub.errors import BadRequest


def _sheet(tmp_path: Path, content: bytes | str, **how: str) -> Sheet:
    path = tmp_path / "people.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return Sheet(path, **how)


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
        ("email\nA\0da\n".encode("utf-16"), "is no text file"),
        (b"email\n" + b"x" * (9 << 20), "line 2: the line is longer than 4 MiB"),
        (b'"email\n' + b"x" * (1 << 20), "the titles are longer than 256 KiB; often a quote"),
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


def test_rows_may_end_with_any_line_break(tmp_path):
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "cp1252"):
        for end in ("\n", "\r\n", "\r"):
            text = f'email,note{end}a@b.co,"two{end}lines"{end}{end}c@d.co,ü{end}e@f.co,x'
            sheet = _sheet(tmp_path, text.encode(encoding), encoding=encoding)
            rows = list(sheet.read(sheet.start))
            assert [row.cells[1] for row in rows] == [f"two{end}lines", "ü", "x"], (encoding, end)
            assert [row.line for row in rows] == [2, 5, 6]
            assert list(sheet.read(rows[0].end)) == rows[1:]
            assert rows[-1].end.bytes == sheet.size


def test_a_line_break_between_two_blocks_is_one(tmp_path):
    # The reader takes blocks of 1 MiB.
    cell = "x" * ((1 << 20) - len("email\r\n\r"))
    sheet = _sheet(tmp_path, f"email\r\n{cell}\r\nlast\r\n")
    assert [(row.line, len(row.cells[0])) for row in sheet.read(sheet.start)] == [
        (2, len(cell)),
        (3, 4),
    ]


def test_marks_before_the_first_title_are_no_part_of_it(tmp_path):
    for content in ("\ufeff\ufeffemail\na@b.co\n", '\ufeff"email"\na@b.co\n', '"\ufeffemail"\nx\n'):
        assert _sheet(tmp_path, content).header == ["email"]
    assert _sheet(tmp_path, "\ufeffsep=;\r\nemail;b\r\n").header == ["email", "b"]


def test_an_encoding_that_contradicts_the_byte_order_mark_is_refused(tmp_path):
    with pytest.raises(BadRequest, match="is in utf-8, as its byte order mark says, not cp1252"):
        _sheet(tmp_path, b"\xef\xbb\xbfemail\n", encoding="cp1252")


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_more_than_a_thousand_columns_are_refused(tmp_path, delimiter):
    for head in (["x", *[""] * 1000], [f"t{n}" for n in range(30_000)]):
        for before in ("", f"sep={delimiter}\r\n", "\ufeff"):
            with pytest.raises(BadRequest, match="has more than 1,000 columns; delete those"):
                _sheet(tmp_path, before + delimiter.join(head) + "\nx\n")
    assert len(_sheet(tmp_path, delimiter.join(["x"] * 1000) + "\n").header) == 1000


def test_a_million_titles_are_refused_in_little_memory(tmp_path):
    for titles in ([""] * 1_000_001, [f"title {n}" for n in range(1_000_000)]):
        content = (",".join(titles) + "\nx\n").encode()
        tracemalloc.start()
        try:
            path = tmp_path / "people.csv"
            path.write_bytes(content)
            before, _ = tracemalloc.get_traced_memory()
            with pytest.raises(BadRequest):
                Sheet(path)
            assert tracemalloc.get_traced_memory()[1] - before < 20 * 2**20
        finally:
            tracemalloc.stop()


def test_a_repeated_title_has_a_number(tmp_path):
    sheet = _sheet(tmp_path, "Phone,Phone,,,Phone (2),Phone\n")
    assert sheet.header == ["Phone", "Phone (3)", "", "", "Phone (2)", "Phone (4)"]
