from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from crmhub.adapter import (
    Adapter,
    Conflict,
    Linked,
    NotFound,
    Pipeline,
    Rejected,
    Saved,
    Unsupported,
    features,
)
from crmhub.adapter.bot_names import BOT_NAMES
from crmhub.adapter.testing.base import Base, either, for_each, leaving_out, new_mark, numeric
from crmhub.adapter.testing.crm import Crm

_OWNERS = 3
each_kind = for_each("kind", {"deals": "deals", "tickets": "tickets"})


class LinkingTests(Base):
    def _people(self, crm: Crm) -> str:
        return [crm.add_contact(self.person()) for _ in range(3)][1]

    def test_it_makes_deals_or_tickets(self, adapter: Adapter, crm: Crm) -> None:
        id, made = crm.add_contact(self.person()), 0
        for kind in self.titles:
            try:
                made += bool(adapter.create_for_contact(kind, id, self.title(kind)).id)
            except Unsupported:
                assert crm.count(kind) == 0
        assert made

    @each_kind
    def test_a_kind_is_made_where_the_adapter_says_so(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        id, setting = crm.add_contact(self.person()), adapter.linked_kinds.get(kind)
        supported = setting is not None and (not setting or adapter.context.settings[setting])
        made = either(Unsupported, lambda: adapter.create_for_contact(kind, id, self.title(kind)))
        assert isinstance(made, Unsupported) == (not supported), "see Adapter.linked_kinds"

    @each_kind
    def test_exactly_one_record_is_made_and_linked_to_its_contact(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        id = self._people(crm)
        sent = self.title(kind, "Ünique ; title")
        saved = self._made(adapter, kind, id, sent)
        assert (type(saved.id), saved.outcome) == (str, "created")
        linked = crm.linked(kind, id)
        assert list(linked) == [saved.id]
        assert linked[saved.id][self.titles[kind]] == sent[self.titles[kind]]
        assert crm.count(kind) == 1
        assert not any(crm.linked(kind, other) for other in crm.contacts() if other != id)

    @each_kind
    def test_two_records_of_one_contact_are_two(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        """Test two of one title; if the CRM takes a title only once, the second is a Conflict."""
        id, sent, title = self._people(crm), self.title(kind), self.titles[kind]
        first = self._made(adapter, kind, id, sent)
        second = either(Conflict, lambda: self._made(adapter, kind, id, sent))
        assert isinstance(second, Conflict) == (kind in self.adapter_class.unique_titles), second
        expected = [one.id for one in (first, second) if isinstance(one, Saved)]
        stored = {id: record[title] for id, record in crm.linked(kind, id).items()}
        assert sorted(stored) == sorted(expected), f"it returned {second}"
        assert set(stored.values()) == {sent[title]}, "it changed a title"

    @each_kind
    def test_a_title_that_is_taken_makes_another_record_or_a_conflict(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        """Test that no contact gets the record of another contact, whose title is the same."""
        theirs, mine = (crm.add_contact(self.person()) for _ in range(2))
        sent, unique = self.title(kind), kind in self.adapter_class.unique_titles
        first = self._made(adapter, kind, theirs, sent)
        second = either(Conflict, lambda: self._made(adapter, kind, mine, sent))
        if isinstance(second, Conflict):
            assert unique, f"name {kind} in unique_titles: the CRM takes a title once"
            assert second.name == self.titles[kind], "name the title in the Conflict"
            assert second.existing_id in (first.id, "")
        else:
            assert second.id != first.id, "it returns the record that has the title"
            stored = crm.linked(kind, mine)[second.id][self.titles[kind]]
            assert stored == sent[self.titles[kind]], f"it changed the title to {stored!r}"
            assert not unique, f"the CRM takes a title of {kind} twice: see unique_titles"
        assert len(crm.linked(kind, mine)) == crm.count(kind) - 1 == (not unique)

    @each_kind
    def test_nothing_is_made_for_a_contact_that_is_not_there(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        id = self._people(crm)
        crm.delete_contact(id)
        with pytest.raises(NotFound):
            self._made(adapter, kind, id, self.title(kind))
        assert crm.count(kind) == 0

    @each_kind
    @for_each("which", {"pipeline": "pipeline", "stage": "stage"})
    def test_an_unknown_pipeline_or_stage_is_rejected_by_name_or_made(
        self, adapter: Adapter, crm: Crm, kind: Linked, which: str
    ) -> None:
        name = (self.pipeline_names if which == "pipeline" else self.stage_names)[kind]
        self._is_rejected_or_stored(adapter, crm, kind, self._people(crm), name, "nowhere")

    @each_kind
    def test_an_unknown_property_of_a_record_is_rejected_by_name_or_stored(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        self._is_rejected_or_stored(adapter, crm, kind, self._people(crm), self.unknown, "x")

    @each_kind
    def test_what_else_bots_send_of_a_record_is_rejected_by_name_or_stored(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        self._is_rejected_or_stored(adapter, crm, kind, self._people(crm), *self.details[kind])

    @each_kind
    def test_the_names_that_bots_use_for_a_record_are_stored_or_rejected_by_name(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        """Test that no property of `BOT_NAMES` is dropped, or refused under another name."""
        id = self._people(crm)
        places = {self.pipeline_names[kind], self.stage_names[kind]}
        sent = {n: v for n, v in BOT_NAMES[kind].items() if n not in places}
        sent |= self.title(kind)
        saved, sent = leaving_out(lambda sent: self._made(adapter, kind, id, sent), sent)
        stored = crm.linked(kind, id)[saved.id]
        assert [name for name in sent if not stored.get(name)] == [], "these were dropped"

    def test_a_ticket_of_high_priority_is_not_like_one_of_low(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        name = "hs_ticket_priority"
        id, stored = self._people(crm), []
        for value in ("LOW", "HIGH"):
            sent = self.title("tickets") | {name: value}
            saved = either(Rejected, lambda: self._made(adapter, "tickets", id, sent))  # noqa: B023
            if isinstance(saved, Rejected):
                assert [one.name for one in saved.problems] == [name]
            else:
                stored.append(crm.linked("tickets", id)[saved.id].get(name))
        assert len(stored) == len(set(stored)), "a priority was dropped"

    @each_kind
    def test_every_value_of_a_record_is_stored_as_it_was_sent(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        sent = self.title(kind, "Mine") | dict([self.details[kind]])
        if "pipelines" in features(self.adapter_class):
            sent |= self._places(kind, self.pipelines(adapter, kind))[-1]
        id = self._people(crm)
        saved = either(Rejected, lambda: self._made(adapter, kind, id, sent))
        if isinstance(saved, Rejected):
            del sent[self.details[kind][0]]
            saved = self._made(adapter, kind, id, sent)
        stored = crm.linked(kind, id)[saved.id]
        for name, value in sent.items():
            assert stored[name] == numeric(value)

    @each_kind
    def test_every_stage_that_is_listed_is_taken(
        self, adapter: Adapter, crm: Crm, kind: Linked
    ) -> None:
        places = self._places(kind, self.pipelines(adapter, kind))
        id = self._people(crm)
        for where in places:
            saved = self._made(adapter, kind, id, self.title(kind) | where)
            record = crm.linked(kind, id)[saved.id]
            assert {name: record[name] for name in where} == where

    def test_a_deal_can_be_given_to_each_owner_that_is_listed(
        self, adapter: Adapter, crm: Crm
    ) -> None:
        self.announced("owners")
        assert self.owner, "name the property of deals that holds the owner's id as `owner`"
        id = self._people(crm)
        for owner in adapter.owners()[:_OWNERS]:
            sent = self.title("deals") | {self.owner: owner.id}
            saved = either(Rejected, lambda: self._made(adapter, "deals", id, sent))  # noqa: B023
            assert isinstance(saved, Saved), f"{self.owner} does not take {owner}: {saved}"
            stored = crm.linked("deals", id)[saved.id]
            assert stored.get(self.owner) == owner.id, f"the owner is not {owner.id}: {stored}"

    def test_no_owner_is_made_up(self, adapter: Adapter, crm: Crm) -> None:
        """Test that records without owner get none, and that nobody replaces an unknown one."""
        id, name = self._people(crm), self.owner or "hubspot_owner_id"
        made = self._made(adapter, "deals", id, self.title("deals"))
        of_contacts = adapter.create_contact(self.person()).id
        records = crm.linked("deals", id)[made.id], crm.contacts()[of_contacts]
        owners = {record.get(name) for record in records} - {None, ""}
        assert owners <= {self.default_owner}, (
            f"{name} is {owners}, which was not sent; name it in default_owner if the CRM sets it"
        )
        self._is_rejected_or_stored(adapter, crm, "deals", id, name, "nobody of this name")

    def _is_rejected_or_stored(
        self, adapter: Adapter, crm: Crm, kind: Linked, contact_id: str, name: str, value: str
    ) -> None:
        sent, before = self.title(kind) | {name: value}, crm.count(kind)
        saved = either(Rejected, lambda: self._made(adapter, kind, contact_id, sent))
        if isinstance(saved, Rejected):
            assert [one.name for one in saved.problems] == [name]
            assert crm.count(kind) == before
        else:
            assert crm.linked(kind, contact_id)[saved.id].get(name) == numeric(value)

    def _places(self, kind: Linked, pipelines: Sequence[Pipeline]) -> list[dict[str, str]]:
        return [
            ({self.pipeline_names[kind]: pipeline.id} if pipeline.id else {})
            | {self.stage_names[kind]: stage.value}
            for pipeline in pipelines
            for stage in pipeline.stages
        ]

    def _made(
        self, adapter: Adapter, kind: Linked, contact_id: str, properties: Mapping[str, str]
    ) -> Saved:
        with self.having(kind):
            return adapter.create_for_contact(kind, contact_id, properties, mark=new_mark())
