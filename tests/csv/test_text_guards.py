"""Cells that a spreadsheet would execute or change: guarded by an export, read by an import."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crmhub.csv.text_guards import (
    escape_formula,
    has_lost_digits,
    is_spreadsheet_error,
    unescape_formula,
)

FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "＝1", "＋a", '="01234"', '="a"&1']
HIDDEN = [
    "",
    " ",
    "\t",
    "\r",
    "\n",
    "\r\n ",
    "\xa0",
    "\u200b",
    "\ufeff",
    "\x1f",
    "\u2003",
    "\xad",
    "\x00",
]


def test_a_formula_gets_an_apostrophe_also_behind_invisible_characters():
    for before in HIDDEN:
        for formula in FORMULAS:
            value = before + formula
            assert escape_formula(value) == f"'{value}", repr(value)
            assert unescape_formula(escape_formula(value)) == value


def test_a_text_that_looks_like_an_error_of_a_spreadsheet_gets_an_apostrophe():
    for value in ("#N/A", "#REF!", " #VALUE! "):
        assert escape_formula(value) == f"'{value}"
        assert unescape_formula(f"'{value}") == value


def test_other_values_are_exported_unchanged():
    for value in ["", "Ada", "-5", "+12025550101", "-0.5", "'tis", "a=1", "1-2", " Ada", "01234"]:
        assert escape_formula(value) == value == unescape_formula(value)


def test_guards_of_other_programs_are_removed():
    for cell, value in [
        ('="01234"', "01234"),
        ('="+34600111222"', "+34600111222"),
        (' ="a ""b"" c" ', 'a "b" c'),
        ('=""', ""),
        ("'01234", "01234"),
        ("'+34 600 111 222", "+34 600 111 222"),
        ("'0034-600/111.222", "0034-600/111.222"),
        ("'=1+1", "=1+1"),
        ("'5E+11", "5E+11"),
        ("\x1f01234", "01234"),
    ]:
        assert unescape_formula(cell) == value, cell
    for cell in ["'tis", "'90s", "=1+1", '="a"&"b"', "''", "O'Neill"]:
        assert unescape_formula(cell) == cell


@given(st.text(alphabet="'=+-@\t\r\n＝a1\"E. \x1f\ufeff\u200b", max_size=8))
def test_every_value_survives_export_and_import(value):
    assert unescape_formula(escape_formula(value)) == value


def test_shortened_numbers_have_lost_digits():
    for cell in [
        "5E+11",
        "3.46E11",
        "3,46E+11",
        "3.51912E+011",
        "3,51912E11",
        " +3.5e+11 ",
        "'5E+11'",
        '"5 E+11"',
    ]:
        assert has_lost_digits(cell, is_phone=True), cell
    for cell in ["5E+11", "3.46E11", "3,46E+11", "3.51912E+011"]:
        assert has_lost_digits(cell), cell
        assert has_lost_digits(cell, is_number=True), cell
    for cell in ["5E11", "E5", "A5E+11", "34600111222", "1.5E-3", ""]:
        assert not has_lost_digits(cell), cell
    for cell in ["1.5E+1", "1.234E+3", "1.5E-3", "12"]:
        assert not has_lost_digits(cell, is_number=True), cell


def test_an_error_of_a_spreadsheet_is_recognised():
    for cell in ["#N/A", "#REF!", " #DIV/0! ", "#NV", "#BEZUG!", "#¿NOMBRE?", "#¡VALOR!", "####"]:
        assert is_spreadsheet_error(cell), cell
    for cell in ["", "#", "#1", "#sale!", "#VIP", "N/A", "#REF! of Ada", "NULL"]:
        assert not is_spreadsheet_error(cell), cell
