"""What the page of a field map shows as the example of a rule."""

from __future__ import annotations

import pytest

from crmhub.adapter import Choice, Described
from crmhub.console.map_rows import Example, Row, example

STAGES = (Choice("17", "Won"), Choice("18", "Lost"))
THEIRS = {"dealstage": Described("dealstage", "Deal stage", "enumeration", STAGES)}


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (Row("stage", "dealstage", "won = 17\nlost = 18"), Example("won", "17", "Won", 1)),
        (Row("dealstage", "", "won = 17"), Example("won", "17", "Won")),
        (Row("stage", "elsewhere", "won = 17"), Example("won", "17")),
        (Row("stage", "dealstage"), Example()),
        (Row("stage", "dealstage", "won = 17", "won"), Example("", "17", "Won")),
        (Row("stage", "dealstage", "", "18", "empty"), Example("", "18", "Lost")),
        (Row("stage", "dealstage", "won 17"), None),
        (Row("stage", "dealstage", "", '"18'), None),
        (Row("", "dealstage", "won = 17"), None),
    ],
)
def test_an_example_is_a_value_that_the_rule_changes(row, shown):
    assert example(row, THEIRS) == shown
