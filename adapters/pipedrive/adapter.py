"""The adapter class for Pipedrive's API v2, and v1 for users.

Only a search index finds people by email or phone. It lags and costs 20 tokens, so a known person
is read by id (1 token), and after a search without result the latest changes are listed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import ClassVar

from adapters.pipedrive import connecting
from adapters.pipedrive.api import (
    ME,
    READ,
    SEARCH,
    SEARCHING,
    WRITE,
    Api,
    Found,
    Record,
)
from adapters.pipedrive.definitions import OWNER, Definitions
from adapters.pipedrive.entries import LISTED, has_email, has_phone, values
from crmhub.adapter import (
    BadConfig,
    Changes,
    Contact,
    Context,
    Described,
    Kind,
    LacksRight,
    Linked,
    NotFound,
    OAuth,
    Outcome,
    Problem,
    Saved,
    Written,
)
from crmhub.adapter.defined import Create, DefinedAdapter
from crmhub.adapter.emails import free_email
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.http import Answer
from crmhub.adapter.phones import nationals, same

# For how many seconds the search may hide a change, and for how many it is not repeated.
_SEARCH_LAG_S, _SEARCHED_S = 120.0, 60.0
_MOST_SEARCHED = 500
_MOST_IDS = 100
# Pipedrive's times are whole seconds, and its clock is known only roughly.
_CLOCK_S = 2.0
_NEWEST_FIRST: Mapping[str, str] = {"sort_by": "add_time", "sort_direction": "desc"}
# Phones may hold a semicolon: +1 202 555 0123;ext=7.
_BETWEEN: Mapping[str, str] = {"emails": ";", "phones": "\n"}
_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


class PipedriveAdapter(DefinedAdapter):
    """Tickets become deals in the pipeline that a setting names; automations cannot be read."""

    title = "Pipedrive"
    record_pages = True
    linked_kinds: ClassVar[Mapping[Linked, str]] = {"deals": "", "tickets": "support_pipeline"}
    whole_name = "name"
    email_names = ("email", "emails")
    phone_names = ("phone", "phones")
    remembered_first = True
    settings = connecting.SETTINGS
    guides = connecting.GUIDES

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = Api(context, self.title)
        self.definitions: Definitions = Definitions(self._api, context)
        self.fitting = Fitting(self.definitions, owner=OWNER)
        # When a search by an email began that found nobody, in seconds of the monotonic clock.
        self._searched: dict[str, float] = {}

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        return connecting.clash(settings, credentials)

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> OAuth | None:
        return connecting.oauth(settings)

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return _ID.fullmatch(contact_id) is not None

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        started = time.monotonic()
        known = started - self._searched.pop(email, -_SEARCHED_S) < _SEARCHED_S
        found = None if known else self._search(email, phone)
        found = found or self._recent(email, phone)
        if email and not found and not known:
            self._searched = {**dict([*self._searched.items()][-_MOST_SEARCHED:]), email: started}
        return self._contact(*found, names) if found else None

    def _search(self, email: str, phone: str) -> Found | None:
        searches = [(email, "email", "true")]
        if phone:
            # How the search compares phones is not documented: by a part, then by the whole text.
            searches = [(part, "phone", "false") for part in nationals(phone)[:1]]
            searches += [(phone, "phone", "true")]
        for term, of, exact in searches:
            params = {"term": term, "fields": of, "exact_match": exact}
            path = ("persons", "search")
            rows = self._api.listed(*path, params=params, cost=SEARCHING, lane=SEARCH)
            items = [(answer, answer.mapping(row.get("item"))) for answer, row in rows]
            ids = [answer.id(item) for answer, item in items if _has(item, email, phone)]
            people = [one for one in self._read(ids) if _has(one[1], email, phone)]
            if people:
                return min(people, key=_age)
        return None

    def _read(self, ids: Sequence[str]) -> Iterator[Found]:
        if len(ids) == 1:
            with suppress(NotFound):
                yield self._person(ids[0])
            return
        for start in range(0, len(ids), _MOST_IDS):
            params = {"ids": ",".join(ids[start : start + _MOST_IDS])}
            yield from self._api.listed("persons", params=params)

    def _recent(self, email: str, phone: str) -> Found | None:
        since = self._api.moment(time.time() - _SEARCH_LAG_S)
        people = self._api.listed("persons", params={"updated_since": since})
        return min((one for one in people if _has(one[1], email, phone)), key=_age, default=None)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        return self._contact(*self._person(contact_id), names)

    def _person(self, contact_id: str) -> Found:
        self.check_id(contact_id)
        answer, person = self._api.record("GET", "persons", contact_id, cost=READ)
        if person.get("is_deleted"):
            raise NotFound("This person was deleted in Pipedrive")
        return answer, person

    def _contact(self, answer: Answer, person: Record, names: Sequence[str]) -> Contact:
        fields = self.definitions.fields("contacts")
        properties = {name: fields[name].text(person) for name in names if name in fields}
        for name in _BETWEEN.keys() & {*names}:
            properties[name] = _BETWEEN[name].join(values(person, name))
        saved = self._saved("contacts", answer, person)
        return Contact(saved.id, properties, saved.url)

    def _saved(
        self, kind: Written, answer: Answer, record: Record, outcome: Outcome = "created"
    ) -> Saved:
        page, record_id = "person" if kind == "contacts" else "deal", answer.id(record)
        return Saved(record_id, outcome, f"{self._api.site()}/{page}/{record_id}")

    def has_email(self, contact: Contact, email: str) -> bool:
        return email in contact.properties.get("emails", "").lower().split(_BETWEEN["emails"])

    def has_phone(self, contact: Contact, phone: str) -> bool:
        phones = contact.properties.get("phones", "").split(_BETWEEN["phones"])
        return any(same(phone, one) for one in phones)

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return the properties whose values differ; a further phone of the contact does not."""
        changes = dict(super().changes(contact, properties).properties)
        if changes.get("phone") and self.has_phone(contact, changes["phone"]):
            del changes["phone"]
        return Changes(changes)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        # Pipedrive takes an email twice.
        with free_email(self, properties.get("email", "").strip()):
            return self._write("contacts", "POST", properties, mark=mark)

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        # Pipedrive replaces lists as a whole: without a lease, two writes lose an entry.
        lease = self.context.lease(f"person {contact_id[:20]}", self.context.remaining())
        with lease if properties.keys() & LISTED.keys() else nullcontext():
            _, person = self._person(contact_id)
            return self._write("contacts", "PATCH", properties, record=person)

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        self.pipelines(kind)
        # Pipedrive does not say what it does with the id of a deleted person.
        self._person(contact_id)
        return self._write(kind, "POST", properties, mark=mark, person_id=int(contact_id))

    def _write(
        self,
        kind: Written,
        method: str,
        properties: Mapping[str, str],
        *,
        record: Record | None = None,
        mark: str = "",
        **link: int,
    ) -> Saved:
        path = ["persons" if kind == "contacts" else "deals"]
        path += [str(record["id"])] if record else []

        def send(fit: dict[str, str]) -> Found:
            field = self.definitions.mark_field(kind) if mark else None
            if field and not fit.get(field.name):
                fit = {**fit, field.name: mark}
            body = self.definitions.body(kind, fit, record) | link
            with self.definitions.renamed(kind, properties):
                return self._api.record(method, *path, cost=WRITE, body=body)

        (answer, made), _ = self.fitting.write(kind, properties, send)
        return self._saved(kind, answer, made, "updated" if record else "created")

    def find_create(self, create: Create) -> Saved | None:
        """Return the record with the mark, or the oldest one without a mark and with equal values.

        For a person, the same email, or else phone, is enough. Pipeline and stage are not compared,
        since an automation may have changed them.
        """
        kind, sent, path, params = create.kind, create.sent, "persons", _NEWEST_FIRST
        fields, field = self.definitions.fields(kind), self.definitions.mark_field(kind)
        since = self._api.moment(create.since_ms / 1000 - _CLOCK_S)
        email, phone = sent.get("email", "").lower(), sent.get("phone", "")
        expected: Mapping[str, str] = {}
        if kind == "contacts":
            params = {**params, "updated_since": since}
        else:
            self.check_id(create.contact_id)
            path, params = "deals", {**params, "person_id": create.contact_id}
            expected = self.fitting.without_place(kind, sent)
        alike: Found | None = None
        for answer, record in self._api.listed(path, params=params):
            if str(record.get("add_time")) < since:
                break
            if record.get("is_deleted"):
                continue
            own = field.text(record) if field and not sent.get(field.name) else ""
            if own and own == create.mark:
                return self._saved(kind, answer, record)
            if kind == "contacts":
                same = _has(record, email, phone)
            else:
                same = all(fields[n].text(record) == text for n, text in expected.items() if text)
            if same and not own and answer.id(record) not in create.others:
                alike = answer, record
        return self._saved(kind, *alike) if alike else None

    def check(self) -> None:
        """Raises LacksRight with the missing scopes, and BadConfig with all wrong settings."""
        self._api.record("GET", "users", "me", version="v1", cost=ME)
        if missing := self._api.missing_scopes():
            raise LacksRight(f"The app lacks scopes in Pipedrive; give it {', '.join(missing)}.")
        problems: list[Problem] = []
        kinds: tuple[Written, Written] = ("contacts", "deals")
        for kind in kinds:
            field = self.definitions.mark_field(kind, newer_than=0.0)
            if self.context.settings["mark_field"] and not (field and field.their_type):
                of = "people" if kind == "contacts" else "deals"
                reason = f"{of} have no custom field of the type Text with this name or API key"
                problems.append(Problem("mark_field", reason))
        try:
            self.definitions.pipelines("deals", newer_than=0.0)
            if self.context.settings["support_pipeline"]:
                self.definitions.pipelines("tickets")
        except BadConfig as exc:
            if not exc.problems:
                raise
            problems += exc.problems
        # Last, since definitions are taken from the cache while Pipedrive is unavailable.
        next(self._api.listed("persons", params={"limit": "1"}), None)
        if problems:
            texts = "; ".join(f"{problem.name}: {problem.reason}" for problem in problems)
            raise BadConfig(texts, problems=problems)

    def describe(self, kind: Kind) -> list[Described]:
        """The users are no options of the owner: to list them costs 20 tokens (`owners`)."""
        return [
            field if field.name == OWNER else self.fitting.with_options(kind, field)
            for field in self.definitions.described(kind)
        ]


def _has(record: Record, email: str, phone: str) -> bool:
    found = has_email(record, email) if email else has_phone(record, phone)
    return found and not record.get("is_deleted")


def _age(found: Found) -> tuple[str, int]:
    answer, person = found
    return str(person.get("add_time")), int(answer.id(person))
