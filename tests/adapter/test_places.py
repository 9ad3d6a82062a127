"""Which pipeline and stage is meant, and when that cannot be told."""

from __future__ import annotations

import pytest

from crmhub.adapter import Choice, Pipeline, Rejected
from crmhub.adapter.places import place
from tests.loops import for_each

NAMES = ("pipeline", "dealstage")


def stages(*named: str) -> tuple[Choice, ...]:
    return tuple(Choice(*one.split("=")) for one in named)


SALES = Pipeline("77", "Sales", stages("new=New", "won=Won", "1=Odd"))
DEFAULT = Pipeline("default", "Main", stages("first=New", "last=Lost", "2=Twice", "3=twice"))
BOTH = [SALES, DEFAULT]


@for_each(
    ("wanted", "found"),
    [
        (("", ""), ("default", "first")),
        (("77", ""), ("77", "new")),
        (("sales", ""), ("77", "new")),
        (("77", "won"), ("77", "won")),
        (("Sales", "WON"), ("77", "won")),
        (("", "won"), ("77", "won")),
        (("", "new"), ("77", "new")),
        (("", "New"), ("default", "first")),
        (("", "lost"), ("default", "last")),
        (("", "1"), ("77", "1")),
    ],
)
def test_a_place_is_told_by_ids_and_labels(wanted: tuple[str, str], found: tuple[str, str]) -> None:
    assert place(BOTH, wanted, NAMES) == found


@for_each(
    ("wanted", "name", "options"),
    [
        (("none", ""), "pipeline", ("77", "default")),
        (("77", "last"), "dealstage", ("new", "won", "1")),
        (("", "none"), "dealstage", ("first", "last", "2", "3", "new", "won", "1")),
        (("default", "Twice"), "dealstage", ("first", "last", "2", "3")),
    ],
)
def test_what_is_no_place_or_may_be_two_is_refused_by_name(
    wanted: tuple[str, str], name: str, options: tuple[str, ...]
) -> None:
    with pytest.raises(Rejected) as caught:
        place(BOTH, wanted, NAMES)
    (problem,) = caught.value.problems
    assert (problem.name, problem.options) == (name, options)
    labels = {one.id: one.label for one in BOTH} | {
        stage.value: stage.label for one in BOTH for stage in one.stages
    }
    assert all(f'"{value}" ({labels[value]})' in problem.reason for value in options)


def test_two_pipelines_of_one_label_are_told_by_their_ids_only() -> None:
    twins = [Pipeline(id, "Twin", stages(f"s{id}=New")) for id in "12"]
    with pytest.raises(Rejected):
        place(twins, ("Twin", ""), NAMES)
    assert place(twins, ("2", ""), NAMES) == ("2", "s2")


@for_each("pipelines", [[], [Pipeline("default", "Main", ())]])
@for_each("wanted", [("", ""), ("", "x"), ("default", "x")])
def test_where_there_is_no_stage_nothing_is_placed(
    pipelines: list[Pipeline], wanted: tuple[str, str]
) -> None:
    with pytest.raises(Rejected) as caught:
        place(pipelines, wanted, NAMES)
    assert len(caught.value.problems) == 1


def test_the_first_pipeline_with_a_stage_goes_where_none_is_the_default() -> None:
    empty = Pipeline("5", "Empty", ())
    assert place([empty, SALES], ("", ""), NAMES) == ("77", "new")


def test_a_reason_stays_short() -> None:
    many = [Pipeline("1", "P", tuple(Choice(f"s{i}", f"S{i}") for i in range(500)))]
    with pytest.raises(Rejected) as caught:
        place(many, ("", "x" * 5000), NAMES)
    (problem,) = caught.value.problems
    assert len(problem.options) == 20
    assert len(problem.reason) < 400


def test_stages_without_a_pipeline_take_none() -> None:
    only = [Pipeline("", "", stages("new=New", "won=Won"))]
    assert place(only, ("", "won"), NAMES) == ("", "won")
    with pytest.raises(Rejected, match="no pipelines") as caught:
        place(only, ("77", "won"), NAMES)
    assert [problem.name for problem in caught.value.problems] == ["pipeline"]
