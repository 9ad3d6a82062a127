"""The properties of a CRM that has names and types of its own for them: what is sent, and read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from crmhub.adapter import (
    Choice,
    Conflict,
    Kind,
    Linked,
    Owner,
    Pipeline,
    Problem,
    Rejected,
    Unsupported,
)
from crmhub.adapter.coercion import Misfit
from crmhub.adapter.fields import Field, Fields
from crmhub.adapter.fitting import Fitting
from tests.adapter.http_contexts import http_context
from tests.loops import for_each

_COLOURS = (Choice("r", "Red"),)


class Described(Fields[Field]):
    def load_fields(self, kind: Kind) -> Iterator[Field]:
        yield Field(
            "dealname",
            "Description",
            "string",
            theirs="description",
            their_type="char",
            longest=20,
            single_line=True,
        )
        yield Field("content", "Comment", "text", theirs="comment")
        yield Field("amount", "Amount", "number", theirs="amount", their_type="integer")
        yield Field("colour", "Colour", "enumeration", _COLOURS, theirs="colour")
        yield Field("created", "Created at", "string", read_only=True, theirs="created")
        yield Field("again", "Again", "text", theirs="comment")
        yield Field("boss", "Boss", "string", theirs="boss", is_user=True)

    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        return []

    def load_owners(self) -> list[Owner]:
        return [Owner("7", "ann@example.org", "Ann")]


@pytest.fixture
def described() -> Described:
    return Described(http_context(), ["contacts"])


def _whole(field: Field, text: str) -> Any:
    if field.their_type != "integer":
        return text or None
    if not text.isdecimal():
        raise Misfit("is no whole number")
    return int(text)


def values(described: Described, sent: dict[str, str]) -> dict[str, Any]:
    fit = Fitting(described).fitted("contacts", sent)
    return described.values("contacts", fit, _whole)


def test_properties_are_sent_under_the_crms_names_and_types(described: Described) -> None:
    sent = {"dealname": "A deal", "amount": "1 250", "colour": "red", "content": ""}
    assert values(described, sent) == {
        "description": "A deal",
        "amount": 1250,
        "colour": "r",
        "comment": None,
    }


@for_each("boss", ["Ann@example.org", "7"])
def test_a_user_is_named_by_email_or_id(described: Described, boss: str) -> None:
    assert values(described, {"boss": boss}) == {"boss": "7"}


def test_a_text_of_one_line_has_no_breaks(described: Described) -> None:
    sent = {"dealname": "one\ttwo\r\nthree", "content": "one\ntwo"}
    assert values(described, sent) == {"description": "one two three", "comment": "one\ntwo"}


@for_each(
    ("name", "text"),
    [
        ("description", "1.5"),
        ("created", "1.5"),
        ("colour", "1.5"),
        ("amount", "1.5"),
        ("no_such_thing", "1.5"),
        ("dealname", "x" * 21),
        ("again", "under another name"),
        ("boss", "nobody@example.org"),
    ],
)
def test_what_does_not_fit_is_rejected_by_name(described: Described, name: str, text: str) -> None:
    with pytest.raises(Rejected) as caught:
        values(described, {"content": "It is", name: text})
    assert [problem.name for problem in caught.value.problems] == [name]


@for_each(("sent", "named"), [("again", "again"), ("amount", "content")])
def test_a_refusal_names_what_the_caller_has_sent(
    described: Described, sent: str, named: str
) -> None:
    with pytest.raises(Rejected) as caught, described.renamed("contacts", [sent]):
        raise Rejected([Problem("comment", "it is too long"), Problem("unknown", "no")])
    assert [problem.name for problem in caught.value.problems] == [named, "unknown"]
    with pytest.raises(Conflict) as clash, described.renamed("contacts", [sent]):
        raise Conflict("taken", name="comment")
    assert clash.value.name == named


def test_all_fields_are_described_and_no_other_kind(described: Described) -> None:
    names = [one.name for one in described.described("contacts")]
    assert names == ["dealname", "content", "amount", "colour", "created", "again", "boss"]
    with pytest.raises(Unsupported):
        described.described("deals")


class Placed(Described):
    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        late = Pipeline("3", "Late", (Choice("4", "New"),))
        return [Pipeline("1", "Early", (Choice("2", "New"),)), late]


@for_each("names", [("pipeline", "dealstage"), ("pipeline_id", "stage_id")])
def test_a_place_has_the_hubs_names_or_the_crms(names: tuple[str, str]) -> None:
    theirs = {"pipeline": "pipeline_id", "dealstage": "stage_id"}
    fitting = Fitting(
        Placed(http_context(), ["deals"]), theirs=lambda kind, name: theirs.get(name, name)
    )
    pipeline, stage = names
    found = fitting.fitted("deals", {pipeline: "late", stage: "new"})
    assert found == {"pipeline": "3", "dealstage": "4"}
    for name in names:
        with pytest.raises(Rejected) as caught:
            fitting.fitted("deals", {name: "none"})
        assert [problem.name for problem in caught.value.problems] == [name]


class Shared(Described):
    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        stages = (Choice("new", "New"), Choice("won", "Won"))
        return [Pipeline("1", "Early", stages), Pipeline("3", "Late", (*stages, Choice("4", "X")))]


@for_each(
    ("sent", "fit"),
    [
        ({}, {}),
        ({"dealstage": "won"}, {"dealstage": "won"}),
        ({"dealstage": "4"}, {"pipeline": "3", "dealstage": "4"}),
        ({"pipeline": "3"}, {"pipeline": "3", "dealstage": "new"}),
    ],
)
def test_an_update_moves_a_record_only_where_it_says_so(
    sent: dict[str, str], fit: dict[str, str]
) -> None:
    fitting = Fitting(Shared(http_context(), ["deals"]))
    assert fitting.fitted("deals", sent, update=True) == fit
    with pytest.raises(Rejected):
        fitting.fitted("deals", {"dealstage": ""}, update=True)
