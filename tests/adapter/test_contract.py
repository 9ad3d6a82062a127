"""What the contract gives every adapter: features, settings, and the derived upsert."""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from crmhub.adapter import (
    BadConfig,
    Context,
    Setting,
    Store,
    Unsupported,
    configured,
    context,
    contract,
    errors,
    features,
    reading,
    values,
)
from crmhub.adapter.matching import Lead
from crmhub.adapter.upserts import upsert_contact
from crmhub.secrets import BASE36, token
from tests.fakes import CRMS, FakeAdapter, FakeCrm
from tests.loops import for_each


@pytest.fixture
def crm() -> FakeCrm:
    return FakeCrm()


@pytest.fixture
def adapter(crm: FakeCrm) -> FakeAdapter:
    name = token(40, BASE36)
    CRMS[name] = crm
    return FakeAdapter(
        Context(
            client_id="someone",
            region="",
            settings={"crm": name},
            store=cast(Store, None),
            session=cast(Any, None),
            budget=cast(Any, None),
            lease=cast(Any, None),
            remaining=lambda: 10.0,
            load_credentials=dict,
            save_credentials=lambda _: None,
        )
    )


def _lead(contact_id: str = "", *, strict: bool = False, **properties: str) -> Lead:
    email, phone = properties.get("email", ""), properties.get("phone", "")
    return Lead(properties, email=email, phone=phone, contact_id=contact_id, strict=strict)


@for_each("module", [contract, context, errors, reading, values])
def test_the_contract_imports_the_standard_library_only(module: ModuleType) -> None:
    tree = ast.parse(Path(str(module.__file__)).read_text())
    imported = {
        name.partition(".")[0] if not name.startswith("crmhub.adapter.") else name
        for node in ast.walk(tree)
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or "."]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    own = {
        f"crmhub.adapter.{name}"
        for name in ("context", "errors", "phone_reading", "reading", "values")
    }
    assert imported <= sys.stdlib_module_names | own


def test_an_adapter_announces_what_it_overrides() -> None:
    class Telling(FakeAdapter):
        def owners(self) -> list[Any]:
            return []

    assert features(Telling) == {"active_workflow", "owners"}


def test_what_an_adapter_cannot_do_is_its_own_error(adapter: FakeAdapter) -> None:
    with pytest.raises(Unsupported, match="Fake adapter cannot list owners"):
        adapter.owners()


def test_credentials_do_not_show_in_a_context() -> None:
    context = Context(
        client_id="someone",
        region="",
        settings={},
        credentials={"access_token": "hunter2"},
        store=cast(Store, None),
        session=cast(Any, None),
        budget=cast(Any, None),
        lease=cast(Any, None),
        remaining=lambda: 10.0,
        load_credentials=dict,
        save_credentials=lambda _: None,
    )
    assert "hunter2" not in repr(context)


def test_a_contact_the_lookup_does_not_show_yet_is_updated(
    adapter: FakeAdapter, crm: FakeCrm
) -> None:
    crm.contacts = {"a": {"email": "a@x.org"}}
    crm.hidden = {"a@x.org"}
    saved = upsert_contact(adapter, _lead(email="a@x.org", city="Rome"))
    assert (saved.id, saved.outcome) == ("a", "updated")
    assert crm.contacts == {"a": {"email": "a@x.org", "city": "Rome"}}


def test_a_deleted_contact_of_the_conversation_is_made_anew(
    adapter: FakeAdapter, crm: FakeCrm
) -> None:
    saved = upsert_contact(adapter, _lead("deleted", email="a@x.org"))
    assert (saved.outcome, list(crm.contacts)) == ("created", [saved.id])


class Declaring(FakeAdapter):
    settings = (
        Setting("base_url", "Address", "url", default="https://crm.example.test"),
        Setting("version", "Version", choices=("1", "2"), default="2"),
        Setting("page_size", "Records in a page", "integer", default="20"),
        Setting("dry", "Whether to write nothing", "boolean", default="false"),
        Setting("access_token", "Access token", secret=True, required=True),
    )


def test_defaults_fill_in_what_is_not_given() -> None:
    settings, credentials = configured(Declaring, {"version": "1"}, {"access_token": "t"})
    assert settings == {
        "base_url": "https://crm.example.test",
        "version": "1",
        "page_size": "20",
        "dry": "false",
    }
    assert credentials == {"access_token": "t"}


@for_each(
    ("settings", "credentials", "wrong"),
    [
        ({}, {}, "access_token: this secret is required"),
        ({"colour": "red"}, {"access_token": "t"}, "colour: Fake has no such setting"),
        ({"access_token": "t"}, {"access_token": "t"}, "access_token: Fake has no such setting"),
        ({"version": "3"}, {"access_token": "t"}, "version: '3' is not one of 1, 2"),
        ({"base_url": "ftp://x"}, {"access_token": "t"}, "base_url: 'ftp://x' is not an address"),
        ({"page_size": "٣"}, {"access_token": "t"}, "page_size: '٣' is not a whole number"),
        ({"dry": "maybe"}, {"access_token": "t"}, "dry: 'maybe' is neither true nor false"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(
    settings: Mapping[str, str], credentials: Mapping[str, str], wrong: str
) -> None:
    with pytest.raises(BadConfig) as caught:
        configured(Declaring, settings, credentials)
    assert wrong in caught.value.message


def test_every_fault_of_the_settings_is_told_at_once_and_no_secret() -> None:
    class Picky(FakeAdapter):
        settings = (Setting("key", "Key", "integer", secret=True), Setting("n", "N", "integer"))

    with pytest.raises(BadConfig) as caught:
        configured(Picky, {"n": "x"}, {"key": "hunter2"})
    assert "key: the value given is not a whole number; n: 'x'" in caught.value.message
    assert "hunter2" not in caught.value.message
