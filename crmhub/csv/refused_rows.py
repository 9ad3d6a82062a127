"""The file of refused rows, which can be corrected and imported like any other CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

from crmhub.csv.spreadsheets import Row, Sheet
from crmhub.csv.text_guards import escape_formula, unescape_formula

ADDED_COLUMNS = ("crmhub_line", "crmhub_refused")
"""The titles of the two columns after the cells of a row: its line number, and the reason."""


MARK = "\ufeff"
"""The byte order mark, by which Excel recognises UTF-8."""


def format_rows(sheet: Sheet, refused: Sequence[tuple[Row, str]], *, raw: bool) -> str:
    """With `raw`, formulas are not escaped."""
    text = StringIO()
    out = csv.writer(text, delimiter=sheet.delimiter)
    for row, reason in refused:
        cells = row.cells if raw else [escape_formula(unescape_formula(cell)) for cell in row.cells]
        out.writerow([*cells, row.line, escape_formula(reason)])
    return text.getvalue()


def format_titles(sheet: Sheet) -> str:
    """With a byte order mark if the sheet may be opened in Excel again."""
    text = StringIO()
    text.write(MARK * sheet.is_of_excel)
    csv.writer(text, delimiter=sheet.delimiter).writerow([*sheet.header, *ADDED_COLUMNS])
    return text.getvalue()
