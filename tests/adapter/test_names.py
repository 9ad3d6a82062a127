"""The hub's names of properties, and those of a CRM that names some of them otherwise."""

from __future__ import annotations

import pytest

from crmhub.adapter import Problem, Rejected
from crmhub.adapter.names import Names
from tests.loops import for_each

NAMES = Names({"dealname": "title", "dealstage": "stage"})


def test_mapped_names_are_translated_both_ways_and_others_are_kept() -> None:
    assert [NAMES.theirs(name) for name in ("dealname", "title", "color")] == [
        "title",
        "title",
        "color",
    ]
    assert [NAMES.ours(name) for name in ("title", "color")] == ["dealname", "color"]


@for_each("name", ["dealname", "title"])
def test_a_problem_has_the_name_that_was_sent(name: str) -> None:
    sent = {name: "x", "color": "red"}
    with NAMES.translated(sent) as given:
        assert given == {"title": "x", "color": "red"}
    with pytest.raises(Rejected) as caught, NAMES.translated(sent):
        raise Rejected([Problem("title", "too long"), Problem("color", "unknown")])
    assert [problem.name for problem in caught.value.problems] == [name, "color"]
    assert caught.value.message == str(caught.value) == f"{name}: too long; color: unknown"


def test_a_message_in_the_crms_own_words_is_kept() -> None:
    with pytest.raises(Rejected) as caught, NAMES.translated({"dealname": "x"}):
        raise Rejected([Problem("title", "too long")], "Validation failed.")
    assert caught.value.message == "Validation failed."


def test_a_problem_of_a_property_that_was_not_sent_has_the_hubs_name() -> None:
    with pytest.raises(Rejected) as caught, NAMES.translated({"dealname": "x"}):
        raise Rejected([Problem("stage", "needed")])
    assert [problem.name for problem in caught.value.problems] == ["dealstage"]


def test_a_property_under_both_its_names_is_rejected() -> None:
    with pytest.raises(Rejected) as caught, NAMES.translated({"dealname": "x", "title": "y"}):
        pytest.fail("it was sent")
    assert len(caught.value.problems) == 1
    assert caught.value.problems[0].name in ("dealname", "title")
