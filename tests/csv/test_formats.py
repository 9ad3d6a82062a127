"""Numbers and days as spreadsheets write them: read in one way, or asked."""

from __future__ import annotations

import pytest

from crmhub.csv.formats import Formats, find_formats, read_date, read_number
from crmhub.errors import Semantic


@pytest.mark.parametrize(
    ("cell", "decimal", "number"),
    [
        ("1.234.567,50", ",", "1234567.50"),
        ("1,234.5", ".", "1234.5"),
        ("-1 234,5 €", ",", "-1234.5"),
        ("1\u202f234", ",", "1234"),
        ("$ 1,000", ".", "1000"),
        ("1'234.5", ".", "1234.5"),
        ("12,34,567", ".", None),
        ("1.2.3", ",", None),
        ("1.234 567", ",", None),
        ("about 5", ".", None),
        ("", ".", None),
    ],
)
def test_a_number_is_read_by_its_separators(cell, decimal, number):
    assert read_number(cell, decimal) == number


@pytest.mark.parametrize(
    ("cell", "order", "date"),
    [
        ("1.2.2024", "mdy", "2024-02-01"),
        ("3/4/2024", "dmy", "2024-04-03"),
        ("3/4/2024", "mdy", "2024-03-04"),
        ("03-04-2024 9:05", "dmy", "2024-04-03 09:05:00"),
        ("3/4/2024 12:30 AM", "mdy", "2024-03-04 00:30:00"),
        ("3/4/2024 1:30 pm", "mdy", "2024-03-04 13:30:00"),
        ("3/4/2024 13:30 pm", "mdy", None),
        ("3/4/24", "dmy", None),
        ("3/4-2024", "dmy", None),
        ("2024-04-03", "dmy", None),
    ],
)
def test_a_day_is_read_by_the_order_of_the_file(cell, order, date):
    assert read_date(cell, order) == date


def found(*cells, kind="number", delimiter=";", decimal="", dates=""):
    rows = [(line, [cell]) for line, cell in enumerate(cells, 2)]
    return find_formats(rows, {0: kind}, delimiter=delimiter, decimal=decimal, dates=dates)


def test_a_cell_that_is_clear_decides_for_the_others():
    assert found("1.234", "", "nothing", "0,5") == Formats(",", "dmy")
    assert found("1.234", "0.5") == Formats(".", "dmy")
    assert found("17", "") == Formats(".", "dmy")
    assert found("3/4/2024", "3/31/2024", kind="date").dates == "mdy"
    assert found("3/4/2024", "31/3/2024", kind="date").dates == "dmy"
    assert found("3/3/2024", "1.2.2024", kind="date").dates == "dmy"
    # Where the comma separates cells, a point is a point.
    assert found("1.234", delimiter=",").decimal == "."


@pytest.mark.parametrize(
    ("cells", "kind", "words"),
    [
        (["1.234"], "number", "Line 2 has 1.234, which can be read in two ways"),
        (["17", "1,234"], "number", "Line 3 has 1,234, which can"),
        (["1.5", "1,5"], "number", "Line 2 has 1.5 and line 3 has 1,5, which are written in two"),
        (["3/4/2024"], "date", "Line 2 has 3/4/2024, which can be read in two ways"),
        (["31/3/2024", "3/31/2024"], "date", "line 3 has 3/31/2024|Line 3 has 3/31/2024"),
    ],
)
def test_what_does_not_decide_is_asked(cells, kind, words):
    with pytest.raises(Semantic, match=words.replace(".", r"\.")):
        found(*cells, kind=kind)
    found(*cells, kind=kind, decimal=",", dates="dmy")
