from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import get_args

import pytest

from crmhub.adapter import (
    NEEDED_FOR_COPY,
    OAUTH_SECRETS,
    OPTIONAL,
    Adapter,
    BadConfig,
    Described,
    Kind,
    Linked,
    PropertyType,
    Unsupported,
    WebhookRequest,
    configured,
    features,
    has_oauth,
)
from crmhub.adapter.testing.base import Base, hidden_in
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import Crm
from crmhub.adapter.testing.linking import each_kind
from crmhub.adapter.translated import HALVES
from crmhub.adapter.upserts import upsert_contact

# The types whose values CRMs write in forms of their own.
_FORMED = frozenset({"bool", "currency", "date", "datetime", "number"})
_SECRET_WORDS = ("token", "secret", "password", "key", "credential")


def _texts(*values: object) -> bool:
    return all(type(value) is str for value in values)


class CheckTests(Base):
    def test_a_connection_without_what_is_required_is_refused_by_name(self) -> None:
        required = {setting.name for setting in self.adapter_class.settings if setting.required}
        if not required:
            pytest.skip(f"{self.adapter_class.title} requires no setting")
        with pytest.raises(BadConfig) as caught:
            configured(self.adapter_class, {}, {})
        assert all(name in caught.value.message for name in required)

    def test_no_secret_shows(self, adapter: Adapter, connection: Connection) -> None:
        adapter.find_contact(email="nobody@nowhere.org")
        assert not hidden_in(f"{adapter!r} {adapter} {adapter.context!r}", connection)

    def test_a_connection_that_works_passes_its_check(self, adapter: Adapter) -> None:
        self.announced("check")
        adapter.check()


class TellingTests(CheckTests):
    def test_the_class_says_what_it_is(self) -> None:
        cls = self.adapter_class
        assert not inspect.isabstract(cls)
        assert cls.title.strip()
        assert isinstance(cls.record_pages, bool)
        assert cls.whole_name not in HALVES, "name the property of the whole name"
        batches = {"find_contacts", "write_contacts"} & features(cls)
        lacking = NEEDED_FOR_COPY - features(cls) if "changed_since" in features(cls) else ()
        assert not lacking, (
            f"changed_since is for a copy of the CRM, which needs {sorted(lacking)}, too"
        )
        assert (cls.batch_size > 1, len(batches)) in ((True, 2), (False, 0))
        assert inspect.getdoc(cls), "the class has no docstring"

    def test_its_settings_can_be_asked_for(self) -> None:
        settings = self.adapter_class.settings
        assert len({setting.name for setting in settings}) == len(settings)
        for setting in settings:
            assert setting.name.isidentifier(), setting.name
            assert setting.name.islower(), setting.name
            assert setting.label.strip(), setting.name
            assert not setting.default or not setting.fault(setting.default), setting.name
            assert not (setting.secret and setting.default), (
                f"{setting.name}: a secret has no default"
            )
            assert not (setting.required and setting.default), (
                f"{setting.name}: it is never missing"
            )
            assert not (setting.kept and (setting.required or not setting.secret)), setting.name

    def test_what_looks_like_a_secret_is_declared_as_one(self) -> None:
        names = {setting.name for setting in self.adapter_class.settings if not setting.secret}
        assert not {name for name in names if name.rpartition("_")[2] in _SECRET_WORDS}

    def test_its_guides_are_sentences_and_links(self) -> None:
        for guide in self.adapter_class.guides:
            assert _texts(guide.title)
            assert guide.title.strip()
            assert guide.steps, guide.title
            for step in guide.steps:
                assert _texts(step.text, step.url, step.label, *step.codes)
                assert step.text.strip(), guide.title
                assert bool(step.url) == bool(step.label), f"{step.text}: url and label go together"
                assert not step.url or step.url.startswith("https://"), step.url

    def test_oauth_goes_to_addresses_and_stores_declared_secrets(self) -> None:
        cls = self.adapter_class
        if not has_oauth(cls):
            pytest.skip(f"{cls.title} is not connected by OAuth")
        secrets = {setting.name for setting in cls.settings if setting.secret and not setting.kept}
        assert secrets >= {*OAUTH_SECRETS}
        oauth = cls.oauth({one.name: one.default for one in cls.settings if not one.secret})
        assert oauth is not None, "it is not offered with the default settings"
        assert all(url.startswith("https://") for url in (oauth.authorize_url, oauth.token_url))
        assert _texts(*oauth.scopes, *oauth.parameters.values())
        assert set(oauth.replaces) <= secrets - {*OAUTH_SECRETS}
        given = dict.fromkeys(OAUTH_SECRETS, "x")
        configured(cls, {}, given)

    def test_what_is_not_announced_is_unsupported(self, adapter: Adapter) -> None:
        calls: dict[str, Callable[[], object]] = {
            "active_workflow": lambda: adapter.active_workflow("1", since_ms=0),
            "add_note": lambda: adapter.add_note("contacts", "1", "a", at_ms=0),
            "archive": lambda: adapter.archive("contacts", "1"),
            "changed_since": lambda: adapter.changed_since("contacts", "", []),
            "check": adapter.check,
            "create_task": lambda: adapter.create_task("1", {"subject": "a"}),
            "describe": lambda: adapter.describe("contacts"),
            "events": lambda: adapter.events(WebhookRequest("POST", "", {}, b"")),
            "find_contacts": lambda: adapter.find_contacts(emails=["a@nowhere.org"]),
            "get_records": lambda: adapter.get_records("contacts", ["1"], []),
            "link": lambda: adapter.link("deals", "1", "contacts", "1"),
            "merge": lambda: adapter.merge("contacts", "1", "2"),
            "find_marked": lambda: adapter.find_marked("deals", "1", "m", sent={}, since_ms=0),
            "owners": adapter.owners,
            "pipelines": lambda: adapter.pipelines("deals"),
            "unwatch": lambda: adapter.unwatch("https://hub.test/7a1b"),
            "watch": lambda: adapter.watch("https://hub.test/7a1b"),
            "write": lambda: adapter.write("contacts", "", {}),
            "write_contacts": lambda: adapter.write_contacts([]),
        }
        assert calls.keys() == OPTIONAL
        for name in calls.keys() - features(self.adapter_class):
            with pytest.raises(Unsupported):
                calls[name]()

    def test_pages_are_addresses_where_there_are_any(self, adapter: Adapter, crm: Crm) -> None:
        mine = self.person()
        saved = adapter.create_contact(mine)
        urls = [saved.url, adapter.get_contact(saved.id, []).url]
        contact = adapter.find_contact(email=mine["email"])
        urls += [contact.url if contact is not None else ""]
        urls += [adapter.update_contact(saved.id, {self.text: "Changed"}).url]
        urls += [upsert_contact(adapter, self.lead(mine)).url]
        if self.adapter_class.record_pages:
            assert all(url.startswith(("https://", "http://")) for url in urls), urls
        else:
            assert set(urls) == {""}, "set record_pages = True, since records have addresses"

    def test_properties_are_described(self, adapter: Adapter, crm: Crm) -> None:
        self.announced("describe")
        described = {item.name: item for item in self._described(adapter, "contacts")}
        assert {"email", "phone", self.text, self.text2} <= described.keys()
        assert self.unknown not in described
        if self.read_only is not None:
            assert described[self.read_only].read_only
        if self.choice is not None:
            name, value = self.choice
            assert value in [option.value for option in described[name].options]
        id = crm.add_contact(self.person())
        names = sorted(described)[:50]
        assert set(adapter.get_contact(id, names).properties) == set(names)

    @each_kind
    def test_properties_of_what_is_linked_are_described(
        self, adapter: Adapter, kind: Linked
    ) -> None:
        self.announced("describe")
        names = {described.name for described in self._described(adapter, kind)}
        assert self.titles[kind] in names
        assert self.unknown not in names

    def test_the_test_class_names_what_the_crm_describes(self, adapter: Adapter) -> None:
        self.announced("describe")
        properties = self._described(adapter, "contacts")
        if self.read_only is None:
            read_only = [item.name for item in properties if item.read_only]
            assert not read_only, "name one as read_only"
        if self.choice is None:
            choices = [item.name for item in properties if item.options and not item.read_only]
            assert not choices, "name one as choice"

    def test_each_type_that_the_crm_writes_in_a_form_of_its_own_is_tested(
        self, adapter: Adapter
    ) -> None:
        self.announced("describe")
        writable = [one for one in self._described(adapter, "contacts") if not one.read_only]
        of_type = {one.type: one.name for one in writable if one.type in _FORMED}
        missing = {kind: name for kind, name in of_type.items() if kind not in self.typed}
        assert not missing, f"name one of each of these types as typed, such as {missing}"

    def _described(self, adapter: Adapter, kind: Kind) -> list[Described]:
        with self.having(f"description of {kind}"):
            properties = adapter.describe(kind)
        assert len({described.name for described in properties}) == len(properties)
        for described in properties:
            assert _texts(described.name, described.label)
            assert described.name
            assert described.type in get_args(PropertyType)
            assert all(_texts(option.value, option.label) for option in described.options)
            assert len({option.value for option in described.options}) == len(described.options)
        return properties

    @each_kind
    def test_pipelines_are_listed_with_their_stages(self, adapter: Adapter, kind: Linked) -> None:
        pipelines = self.pipelines(adapter, kind)
        assert pipelines
        ids = {pipeline.id for pipeline in pipelines}
        assert len(ids) == len(pipelines)
        assert "" not in ids or len(ids) == 1, 'the id "" stands for stages without pipelines'
        for pipeline in pipelines:
            assert _texts(pipeline.id, pipeline.label)
            assert pipeline.stages
            assert all(_texts(stage.value, stage.label) for stage in pipeline.stages)
            assert len({stage.value for stage in pipeline.stages}) == len(pipeline.stages)

    def test_another_process_tells_the_same_definitions(self, connection: Connection) -> None:
        self.announced("describe")
        first, second = connection.adapter(), connection.adapter()
        assert self._described(second, "contacts") == self._described(first, "contacts")
        if first.can("pipelines"):
            assert self.pipelines(second, "deals") == self.pipelines(first, "deals")

    def test_owners_are_listed(self, adapter: Adapter) -> None:
        self.announced("owners")
        owners = adapter.owners()
        assert all(_texts(owner.id, owner.email, owner.name) and owner.id for owner in owners)
        assert len({owner.id for owner in owners}) == len(owners)

    def test_a_contact_in_no_workflow_has_none(self, adapter: Adapter, crm: Crm) -> None:
        self.announced("active_workflow")
        id = crm.add_contact(self.person())
        since_ms = int(time.time() * 1000) - 60_000
        assert adapter.active_workflow(id, since_ms=since_ms) == ""
