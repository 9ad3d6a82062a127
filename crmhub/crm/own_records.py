"""The records of an account in the hub's own CRM, as adapters use them (`context.store`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import sqlalchemy as sa

from crmhub.accounts.accounts import Account
from crmhub.adapter import (
    Choice,
    Conflict,
    Contact,
    Described,
    Kind,
    Linked,
    NotFound,
    Pipeline,
    Problem,
    PropertyType,
    Rejected,
    Saved,
    is_record_id,
)
from crmhub.adapter.places import PLACES, place
from crmhub.crm import pipeline_stages
from crmhub.database.connection import Connection, now_ms
from crmhub.database.statements import Statement, param
from crmhub.database.tables import ix_text, records
from crmhub.errors import NotFound as NoRecord
from crmhub.errors import Semantic, shortened
from crmhub.identity import merged_contacts
from crmhub.identity.phones import forms
from crmhub.properties import values
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import CONTACTS, KINDS
from crmhub.properties.validation import DuplicateValue, InvalidProperties
from crmhub.records import timeline
from crmhub.records.index import PREFIX
from crmhub.records.marks import AlreadyWritten, Closed
from crmhub.records.models import Change, NewRecord, Record
from crmhub.records.reading import with_texts
from crmhub.records.search.filters import iso
from crmhub.records.store import RecordStore
from crmhub.records.timeline import NOTE, OWN, TASK, Added
from crmhub.translatable import translatable

# Fields of every record, by HubSpot's names.
_FIELDS: Mapping[str, PropertyType] = {
    "hs_object_id": "number",
    "createdate": "datetime",
    "lastmodifieddate": "datetime",
}

# Ordered by time, not by id: each process assigns ids from its own block.
_OLDEST_WITH_VALUE = Statement(
    with_texts(records.c.id).order_by(records.c.created_at, records.c.id).limit(1)
)


@cache
def _some_with_values(count: int) -> Statement:
    """Return the statement that finds up to two records with one of `count` values.

    Each value is compared on its own: until PostgreSQL has statistics of a table, it would read all
    values of the property to compare them with a list.
    """
    parts = [
        sa.select(ix_text.c.record_id).where(
            ix_text.c.account_id == param("account_id"),
            ix_text.c.prop_id == param(f"prop_id_{n}"),
            ix_text.c.value == param(f"value_{n}"),
            ix_text.c.full_value.is_(None),
        )
        for n in range(count)
    ]
    return Statement(sa.union_all(*parts).limit(2))


class OwnRecords:
    """Implements `adapter.Store` with the records that the public API reads and writes, too."""

    def __init__(self, records: RecordStore, account: Account) -> None:
        self._records = records
        self._account = account

    def find(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        """Find the contact; a merged contact's email finds the one into which it was merged."""
        catalogue = self._records.catalogue(self._account, CONTACTS)
        emails = [values.for_search("email", email)] if email else []
        phones = forms(phone, self._account.switches.region) if phone else []
        wanted = [
            (known.prop_id, [text[:PREFIX] for text in texts])
            for name, texts in (("email", emails), ("phone", phones), ("mobilephone", phones))
            if texts and (known := catalogue.get(name)) and known.index == "ix_text"
        ]
        with self._records.database.reading() as connection:
            found = self._oldest(connection, wanted)
            if not found and emails:
                found = merged_contacts.with_former_email(connection, self._account, emails[0])
        if not found:
            return None
        try:
            return self.get(found, names)
        except NotFound:
            # The contact was archived between the two reads.
            return None

    def get(self, contact_id: str, names: Sequence[str]) -> Contact:
        record = self._record(contact_id)
        catalogue = self._records.catalogue(self._account, CONTACTS)
        fields = {
            "hs_object_id": str(record.id),
            "createdate": iso(record.created_at),
            "lastmodifieddate": iso(record.updated_at),
        }
        known = {
            name: record.properties.get(name, "")
            for name in names
            if name in record.properties or catalogue.get(name) is not None
        }
        known |= {name: fields[name] for name in names if name in fields and name not in known}
        return Contact(str(record.id), known)

    def create(
        self,
        kind: Kind,
        properties: Mapping[str, str],
        *,
        contact_id: str | None = None,
        mark: str = "",
    ) -> Saved:
        if kind == "deals" or kind == "tickets":
            properties = self._with_place_ids(kind, properties)
        if contact_id is None:
            return self._create(kind, properties, None, mark)
        contact = self._record(contact_id)
        try:
            return self._create(kind, properties, contact, mark)
        except (NotFound, Rejected):
            if (kept := self._record(contact_id)).id == contact.id:
                raise
            # The contact was merged meanwhile.
            return self._create(kind, properties, kept, mark)

    def _create(
        self, kind: Kind, properties: Mapping[str, str], contact: Record | None, mark: str
    ) -> Saved:
        """Create a record once for a `mark`; create its pipeline or stage first, if necessary."""
        new = NewRecord(properties, {} if contact is None else {"contacts": [contact.id]})
        made: frozenset[str] = frozenset()
        while True:
            try:
                with self._contract_errors(kind, properties):
                    (record,) = self._records.create(
                        self._account,
                        KINDS[kind],
                        [new],
                        define_unknown=True,
                        # Better a lead that lacks a required property than no lead.
                        may_lack=True,
                        mark=mark,
                        reading=self._account.switches.reading,
                    )
                return Saved(str(record.id), "created")
            except AlreadyWritten as exc:
                return Saved(str(exc.record_id), "created")
            except Rejected as exc:
                if made:
                    raise
                made = pipeline_stages.make(self._records, self._account, KINDS[kind], properties)
                if not made:
                    raise
                if others := [one for one in exc.problems if one.name not in made]:
                    raise Rejected(others) from exc

    def update(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        contact = self._record(contact_id)
        try:
            return self._update(contact, properties)
        except (NotFound, Rejected):
            if (kept := self._record(contact_id)).id == contact.id:
                raise
            # The contact was merged meanwhile.
            return self._update(kept, properties)

    def _update(self, before: Record, properties: Mapping[str, str]) -> Saved:
        with self._contract_errors("contacts", properties):
            (after,) = self._records.update(
                self._account,
                CONTACTS,
                [Change(before.id, properties)],
                define_unknown=True,
                reading=self._account.switches.reading,
            )
        same = after.version == before.version
        return Saved(str(after.id), "unchanged" if same else "updated")

    def add_note(
        self, kind: Kind, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        id = self._number(kind, record_id)
        added = Added(OWN, KINDS[kind], id, NOTE, text, at_ms)
        return self._add(added, mark)

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        id = self._number("contacts", contact_id)
        text, others = properties.get("notes", ""), {**properties}
        others.pop("notes", None)
        added = Added(OWN, CONTACTS, id, TASK, text, now_ms(), properties=others)
        return self._add(added, mark)

    def _add(self, added: Added, mark: str) -> Saved:
        id = self._records.database.transact(
            lambda tx: timeline.add(tx, self._account, added, mark=mark)
        )
        return Saved(str(id), "created")

    def _number(self, kind: Kind, record_id: str) -> str:
        """Return the id of a record, of a merged contact that of the kept one; raises NotFound."""
        if kind == "contacts":
            return str(self._record(record_id).id)
        if not is_record_id(record_id):
            raise NotFound(translatable("there is no record %(id)s", id=shortened(record_id)))
        try:
            return str(self._records.get(self._account, KINDS[kind], int(record_id)).id)
        except NoRecord as exc:
            raise NotFound(exc.message) from exc

    def describe(self, kind: Kind) -> list[Described]:
        known = self._records.catalogue(self._account, KINDS[kind])
        fields = [Described(name, name, type, read_only=True) for name, type in _FIELDS.items()]
        return [_described(one) for one in known] + [
            one for one in fields if known.get(one.name) is None
        ]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return [
            Pipeline(one.id, one.label, tuple(Choice(each.id, each.label) for each in one.stages))
            for one in self._records.catalogue(self._account, KINDS[kind]).pipelines
        ]

    def _with_place_ids(self, kind: Linked, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Return the properties with the ids of the pipeline and the stage, if these exist."""
        names = pipeline_name, stage_name = PLACES[kind]
        pipeline = properties.get(pipeline_name, "").strip()
        stage = properties.get(stage_name, "").strip()
        try:
            pipeline_id, stage_id = place(self.pipelines(kind), (pipeline, stage), names)
        except Rejected:
            return properties
        found = dict(properties)
        if pipeline or stage not in ("", stage_id):
            found[pipeline_name] = pipeline_id
        if stage:
            found[stage_name] = stage_id
        return found

    def _record(self, contact_id: str) -> Record:
        """Return the contact with this id, or the one into which it was merged; raises NotFound."""
        if not is_record_id(contact_id):
            raise _no_contact(contact_id)
        try:
            return self._records.get(self._account, CONTACTS, int(contact_id))
        except NoRecord as exc:
            with self._records.database.reading() as connection:
                kept_id = merged_contacts.merged_into(connection, self._account, contact_id)
            if kept_id == contact_id:
                raise _no_contact(contact_id) from exc
            return self._record(kept_id)

    @contextmanager
    def _contract_errors(self, kind: Kind, properties: Mapping[str, str]) -> Iterator[None]:
        """Convert the record store's errors in the block into errors of the adapter contract."""
        try:
            yield
        except Closed as exc:
            raise NotFound("the action was discarded or its contact erased meanwhile") from exc
        except InvalidProperties as exc:
            raise Rejected([Problem(one.name, one.reason) for one in exc.problems]) from exc
        except DuplicateValue as exc:
            raise Conflict(
                translatable("another contact, %(id)s, has this value already", id=exc.existing_id),
                existing_id=str(exc.existing_id),
                name=exc.name,
            ) from exc
        except NoRecord as exc:
            raise NotFound(exc.message) from exc
        except Semantic as exc:
            # The account cannot have more properties; existing ones can still be stored.
            catalogue = self._records.catalogue(self._account, KINDS[kind])
            new = [name for name in properties if catalogue.get(name) is None]
            raise Rejected([Problem(name, exc.message) for name in new], exc.message) from exc

    def _oldest(self, connection: Connection, wanted: Sequence[tuple[int, Sequence[str]]]) -> str:
        """Return the id of the oldest contact that has one of these values, by property id; or "".

        A contact that has a value in an earlier property comes before all others.
        """
        pairs = [(prop_id, text) for prop_id, texts in wanted for text in texts]
        here: dict[str, Any] = {"account_id": self._account.id}
        for n, (prop_id, text) in enumerate(pairs):
            here |= {f"prop_id_{n}": prop_id, f"value_{n}": text}
        ids = connection.rows(_some_with_values(len(pairs)), here) if pairs else []
        if len(ids) < 2:
            return str(ids[0].record_id) if ids else ""
        here = {"account_id": self._account.id, "kind": CONTACTS.code}
        for prop_id, texts in wanted:
            here |= {"prop_id": prop_id, "texts": texts}
            found: int | None = connection.scalar(_OLDEST_WITH_VALUE, here)
            if found is not None:
                return str(found)
        return ""


def _described(one: Property) -> Described:
    options = tuple(Choice(option.value, option.label) for option in one.options)
    return Described(
        one.name,
        one.label,
        cast(PropertyType, one.type),
        options,
        read_only=one.read_only,
        required=one.required,
    )


def _no_contact(contact_id: str) -> NotFound:
    return NotFound(translatable("there is no contact %(id)s", id=shortened(contact_id)))
