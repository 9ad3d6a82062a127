"""Adapters are found by their entry point, and a broken one troubles nobody else."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from crmhub.adapter import Adapter, BadConfig
from crmhub.adapter.registry import Registry
from tests.fakes import BROKEN, FAKE, FakeAdapter
from tests.loops import for_each


class Unfinished(Adapter):
    pass


def _point(name: str, thing: str) -> EntryPoint:
    return EntryPoint(name, thing, "crmhub.adapters")


class Misguided(FakeAdapter):
    """Its guide is a text, which the console could not show."""

    guides = ("Make a token.",)  # type: ignore[assignment]


UNFINISHED = _point("unfinished", f"{__name__}:Unfinished")


def test_the_installed_adapters_include_local_with_its_version() -> None:
    [local] = [one for one in Registry().installed() if one.name == "local"]
    assert (local.title, local.error) == ("local", "")
    assert local.version
    assert local.features == {"add_note", "check", "create_task", "describe", "pipelines"}


def test_an_adapter_is_loaded_by_its_name() -> None:
    assert Registry([FAKE]).load("fake") is FakeAdapter


def test_an_adapter_that_is_not_installed_is_told_with_those_that_are() -> None:
    with pytest.raises(BadConfig, match=r"'salesforce'.*fake"):
        Registry([FAKE]).load("salesforce")


def test_a_broken_adapter_fails_alone_and_only_when_it_is_needed() -> None:
    registry = Registry([FAKE, BROKEN])
    assert registry.load("fake") is FakeAdapter
    with pytest.raises(BadConfig, match=r"'broken'.*ModuleNotFoundError"):
        registry.load("broken")


def test_the_list_shows_features_and_what_is_wrong() -> None:
    broken, fake = Registry([FAKE, BROKEN]).installed()
    assert fake.features == {"active_workflow"}
    assert "no_such_module" in broken.error


@for_each(
    ("point", "wrong"),
    [
        (UNFINISHED, "lacks create_contact, create_for_contact"),
        (_point("misguided", f"{__name__}:Misguided"), "guides that are no Guide"),
        (_point("odd", "tests.fakes:CRMS"), "no subclass"),
        (_point("gone", "tests.fakes:Missing"), "cannot be loaded"),
    ],
)
def test_what_is_no_adapter_is_refused_with_the_reason(point: EntryPoint, wrong: str) -> None:
    with pytest.raises(BadConfig, match=wrong):
        Registry([point]).load(point.name)


def test_two_adapters_of_one_name_are_refused() -> None:
    registry = Registry([FAKE, _point("fake", f"{__name__}:Unfinished")])
    with pytest.raises(BadConfig, match="uninstall one"):
        registry.load("fake")


def test_the_same_entry_point_seen_twice_is_one() -> None:
    assert Registry([FAKE, FAKE]).load("fake") is FakeAdapter


def test_the_list_tells_the_distribution_and_what_an_operator_sets() -> None:
    by_name = {one.name: one for one in Registry().installed()}
    assert by_name["local"].distribution == "crmhub"
    assert by_name["local"].settings == ()
    names = [one.name for one in by_name["hubspot"].settings]
    assert "access_token" in names
    assert "access_grant" not in names, "the adapter keeps this itself"


def test_an_entry_point_of_no_distribution_is_listed_without_one() -> None:
    [fake] = Registry([FAKE]).installed()
    assert (fake.version, fake.distribution) == ("", "")
