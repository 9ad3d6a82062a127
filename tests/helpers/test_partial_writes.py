"""What is stored when the CRM refuses a part of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from crmhub.adapter import Conflict, Problem, Rejected, Saved
from crmhub.helpers.partial_writes import PartialWrite


class Crm:
    """Refuses some names, each with its reason, one at a time."""

    def __init__(self, *refused: str, required: str = "") -> None:
        self.refused = refused
        self.required = required
        self.written: Mapping[str, str] | None = None

    def write(self, properties: Mapping[str, str]) -> Saved:
        for name in self.refused:
            if name in properties:
                raise Rejected([Problem(name, "it is wrong")])
        if self.required and self.required not in properties:
            raise Rejected([Problem(self.required, "it is required")])
        self.written = properties
        return Saved("1", "updated")


def write_accepted(
    write: Callable[[Mapping[str, str]], Saved],
    properties: Mapping[str, str],
    refused: Sequence[Problem] = (),
    *,
    strict: bool,
) -> list[Problem]:
    """Write as the helpers do, and return what was left out."""
    partial = PartialWrite(properties, refused, strict=strict)
    while True:
        try:
            write(partial.rest)
            return partial.refused
        except (Rejected, Conflict) as exc:
            partial.leave_out(exc)


def test_the_good_properties_are_stored_and_the_others_named() -> None:
    crm = Crm("a", "c")
    refused = write_accepted(crm.write, {"a": "1", "b": "2", "c": "3"}, strict=False)
    assert crm.written == {"b": "2"}
    assert [problem.name for problem in refused] == ["a", "c"]


def test_what_was_refused_before_comes_first() -> None:
    before = [Problem("z", "a placeholder")]
    refused = write_accepted(Crm("a").write, {"a": "1", "b": "2"}, before, strict=False)
    assert [problem.name for problem in refused] == ["z", "a"]


def test_a_strict_account_writes_all_or_nothing() -> None:
    crm = Crm("a")
    with pytest.raises(Rejected, match="a: it is wrong"):
        write_accepted(crm.write, {"a": "1", "b": "2"}, strict=True)
    with pytest.raises(Rejected, match="z: a placeholder"):
        write_accepted(crm.write, {"b": "2"}, [Problem("z", "a placeholder")], strict=True)
    assert crm.written is None


def test_nothing_left_is_a_refusal_with_every_reason() -> None:
    with pytest.raises(Rejected, match="a: it is wrong; b: it is wrong"):
        write_accepted(Crm("a", "b").write, {"a": "1", "b": "2"}, strict=False)


@pytest.mark.parametrize("place", ["pipeline", "dealstage", "hs_pipeline", "hs_pipeline_stage"])
def test_a_pipeline_or_stage_is_never_left_out(place: str) -> None:
    crm = Crm(place)
    with pytest.raises(Rejected, match=f"{place}: it is wrong"):
        write_accepted(crm.write, {place: "1", "b": "2"}, strict=False)
    assert crm.written is None


def test_what_is_missing_cannot_be_left_out() -> None:
    with pytest.raises(Rejected, match="dealname: it is required"):
        write_accepted(Crm(required="dealname").write, {"a": "1"}, strict=False)


def test_a_required_property_that_is_wrong_is_told_with_its_reason() -> None:
    crm = Crm("dealname", required="dealname")
    with pytest.raises(Rejected, match="it is wrong; dealname: it is required"):
        write_accepted(crm.write, {"dealname": "1", "a": "2"}, strict=False)


def test_a_refusal_that_names_no_property_refuses_the_whole() -> None:
    def write(properties: Mapping[str, str]) -> Saved:
        raise Rejected([], "not on a Sunday")

    with pytest.raises(Rejected, match="not on a Sunday"):
        write_accepted(write, {"a": "1", "b": "2"}, strict=False)


def test_a_value_that_belongs_to_another_contact_is_left_out() -> None:
    def write(properties: Mapping[str, str]) -> Saved:
        if "email" in properties:
            raise Conflict("another contact has it", existing_id="7", name="email")
        return Saved("1", "updated")

    refused = write_accepted(write, {"email": "a@x.org", "city": "Rome"}, strict=False)
    assert refused == [Problem("email", "another contact has it")]


def test_a_conflict_about_no_property_stays_one() -> None:
    def write(properties: Mapping[str, str]) -> Saved:
        raise Conflict("it exists", existing_id="7")

    with pytest.raises(Conflict):
        write_accepted(write, {"a": "1"}, strict=False)
