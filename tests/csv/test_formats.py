"""Numbers and days as spreadsheets write them: read in one way, or asked."""

from __future__ import annotations

import pytest

from crmhub.adapter.reading import read_number
from crmhub.csv.formats import find_formats, read_date
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
        ("R$ 1.234,50", ",", "1234.50"),
        ("US$2,500", ".", "2500"),
        ("1.000 EUR", ",", "1000"),
        ("ABC 123", ",", None),
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
        ("2024/4/3", "dmy", "2024-04-03"),
        ("2024.04.03 9:05", "mdy", "2024-04-03 9:05"),
        ("2024/04-03", "dmy", None),
        ("1990. 12. 31.", "mdy", "1990-12-31"),
        ("1990. 1. 2. 9:05", "mdy", "1990-01-02 9:05"),
    ],
)
def test_a_day_is_read_by_the_order_of_the_file(cell, order, date):
    assert read_date(cell, order) == date


def found(*cells, kind="number", decimal="", dates=""):
    rows = [(line, {0: cell}) for line, cell in enumerate(cells, 2)]
    return find_formats(rows, {0: kind}, decimal=decimal, dates=dates)[0]


def test_an_unambiguous_cell_decides_for_its_column():
    for *cells, decimal in [
        ("1.234", "", "nothing", "0,5", ","),
        ("1.234", "1.234,50", ","),
        ("1.234 €", "12,5", ","),
        ("1.234", "0.5", "."),
        # Digits are never grouped like these.
        ("0.125", "."),
        ("1234.567", "."),
        ("17", "", "."),
    ]:
        assert found(*cells) == decimal, cells
    assert found("3/4/2024", "3/31/2024", kind="date") == "mdy"
    assert found("3/4/2024", "31/3/2024", kind="date") == "dmy"
    assert found("3/3/2024", "1.2.2024", kind="date") == "dmy"


def test_a_column_does_not_decide_for_another_one():
    rows = [(2, dict(enumerate(["1,5", "2.5", "31/3/2024", "3/31/2024"])))]
    kinds = {0: "number", 1: "number", 2: "date", 3: "date"}
    formats = find_formats(rows, kinds, decimal="", dates="")
    assert formats == {0: ",", 1: ".", 2: "dmy", 3: "mdy"}
    with pytest.raises(Semantic, match=r"Line 2 has 1\.234, which can be read in two ways"):
        find_formats(
            [(2, {0: "1,5", 1: "1.234"})], {0: "number", 1: "number"}, decimal="", dates=""
        )


@pytest.mark.parametrize(
    ("cells", "kind", "words"),
    [
        (["1.234"], "number", "Line 2 has 1.234, which can be read in two ways"),
        (["1.234 €"], "number", "Line 2 has 1.234 €, which can be read in two ways"),
        (["€ 12,000"], "number", "Line 2 has € 12,000, which can be read in two ways"),
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
