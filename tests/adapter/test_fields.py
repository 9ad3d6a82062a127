"""The properties of a CRM that describes its fields: names, values, labels."""

from __future__ import annotations

from typing import Any

import pytest

from crmhub.adapter import Choice, Described, Rejected
from crmhub.adapter.coercion import Misfit
from crmhub.adapter.fields import Field, Fields

_COLOURS = (Choice("r", "Red"),)
FIELDS = Fields(
    "deals",
    [
        Field(Described("dealname", "Description", "string"), "description", "char", True),
        Field(Described("content", "Comment", "text"), "comment", "text"),
        Field(Described("amount", "Amount", "number"), "amount", "integer"),
        Field(Described("colour", "Colour", "enumeration", _COLOURS), "colour", "selection"),
        Field(Described("created", "Created at", "string", read_only=True), "created", "char"),
    ],
)


def _whole(type_of: str, text: str) -> Any:
    if type_of != "integer":
        return text or None
    if not text.isdecimal():
        raise Misfit("is no whole number")
    return int(text)


def test_properties_are_sent_under_the_crms_names_and_types() -> None:
    sent = {"dealname": "A deal", "amount": "1 250", "colour": "red", "content": ""}
    values = FIELDS.values(FIELDS.fitted(sent), _whole)
    assert values == {"description": "A deal", "amount": 1250, "colour": "r", "comment": None}


def test_a_text_of_one_line_has_no_breaks() -> None:
    sent = {"dealname": "one\ttwo\r\nthree", "content": "one\ntwo"}
    assert FIELDS.fitted(sent) == {"dealname": "one two three", "content": "one\ntwo"}


@pytest.mark.parametrize("name", ["description", "created", "colour", "amount", "no_such_thing"])
def test_what_does_not_fit_is_rejected_by_name(name: str) -> None:
    with pytest.raises(Rejected) as caught:
        FIELDS.values(FIELDS.fitted({"content": "It is", name: "1.5"}), _whole)
    assert [problem.name for problem in caught.value.problems] == [name]


def test_a_property_is_found_by_its_name_and_its_label() -> None:
    assert [(n, field.name) for n, field in FIELDS.known(["dealname", "description"])] == [
        ("dealname", "description")
    ]
    assert (FIELDS.labelled("Description"), FIELDS.labelled("Nothing")) == ("dealname", "")
    assert [one.name for one in FIELDS.described()][:2] == ["dealname", "content"]
