from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from adapters.hubspot.api import BATCH, SEARCH, Api, MissingScopes, TooLong, item_failure, next_page
from adapters.hubspot.connecting import GUIDES, OWNERS_SCOPE, SCOPES, SETTINGS, oauth
from adapters.hubspot.definitions import HubSpotDefinitions
from crmhub.adapter import (
    AdapterError,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    Context,
    Described,
    Guide,
    Kind,
    LacksRight,
    Linked,
    NotFound,
    OAuth,
    Outcome,
    Problem,
    Rejected,
    Saved,
    Setting,
    Uncertain,
    Written,
)
from crmhub.adapter.answers import Answer, objects_in, parse_time, text_of, value_at
from crmhub.adapter.batches import Action, Results, groups_that_fit, write_batches
from crmhub.adapter.defined import Candidate, MarkedAdapter
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.oauth import token_or_oauth
from crmhub.adapter.phones import PHONES, has_number, nationals, notations, oldest_holders

_ID = re.compile(r"[0-9]{1,20}", re.ASCII)
# HubSpot calculates these properties without the country code; its search uses them.
_CALCULATED_PHONES = (
    "hs_searchable_calculated_phone_number",
    "hs_searchable_calculated_mobile_number",
)
# HubSpot accepts 3,000 characters in a search (its search guide). The limit for URLs is unknown;
# proxies between the hub and HubSpot may have limits, too.
_SEARCH_BODY, _LONGEST_QUERY = 2_900, 2_000
_LIFECYCLE = "lifecyclestage"
# HubSpot requires one of these for a contact.
_CALLED = ("email", "firstname", "lastname")
# These are text in every account, so writing them does not need the large definitions.
_PLAIN = frozenset(
    {*_CALLED, *PHONES, "company", "jobtitle", "address", "city", "state", "zip", "country"}
    | {"website", "message"}
)
# Association types differ by direction: these lead to the contact.
_TO_CONTACT: Mapping[Linked, int] = {"deals": 3, "tickets": 16}
_TRACE = "objectWriteTraceId"


class HubSpotAdapter(MarkedAdapter):
    """`active_workflow` is missing, since no API version reports a contact's workflows."""

    title = "HubSpot"
    email_names = ("email", "hs_additional_emails")
    record_pages = True
    batch_size = BATCH
    # A create with a taken email is a 409 that names the contact, even if it is a secondary email.
    unique_emails = True
    under_way_s = 30.0
    settings: ClassVar[tuple[Setting, ...]] = SETTINGS
    guides: ClassVar[tuple[Guide, ...]] = GUIDES

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = Api(context, title=self.title)
        self.mark_name = context.settings["mark_property"]
        self.definitions: HubSpotDefinitions = HubSpotDefinitions(self._api, context)
        self.fitting = Fitting(self.definitions, owner="hubspot_owner_id", plain=_PLAIN)
        self._calculated_phones = True

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        return token_or_oauth(credentials, "access_token")

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> OAuth | None:
        return oauth(settings)

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return _ID.fullmatch(contact_id) is not None

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        if not email:
            return self._by_phone([phone], names).get(phone)
        try:
            return self._contact(email, names, by="email")
        except NotFound:
            return None

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        self.check_id(contact_id)
        return self._contact(contact_id, names)

    def has_email(self, contact: Contact, email: str) -> bool:
        # The additional emails stand in one text, separated by semicolons.
        emails = (contact.properties.get(name, "").lower() for name in self.email_names)
        return any(email in addresses.split(";") for addresses in emails)

    def has_phone(self, contact: Contact, phone: str) -> bool:
        return has_number(contact.properties, phone)

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        if phones:
            return self._by_phone(phones, names)
        contacts = self._contacts(emails, list(dict.fromkeys((*names, "email"))), by="email")
        return {contact.properties.get("email", "").lower(): contact for contact in contacts}

    def _contact(self, key: str, names: Sequence[str], *, by: str = "") -> Contact:
        params = {"idProperty": by} if by else {}
        if names:
            params["properties"] = ",".join(names)
        try:
            if len(params.get("properties", "")) <= _LONGEST_QUERY:
                path = self._api.path("objects", "contacts", key)
                with self.definitions.reject_sensitive("contacts", names):
                    answer = self._api.send("GET", *path, params=params or None)
                return self._contact_of(answer, answer.object(), names)
        except TooLong:
            pass
        for contact in self._contacts([key], names, by=by):
            return contact
        raise NotFound("HubSpot has no such contact")

    def _contacts(
        self, keys: Sequence[str], names: Sequence[str], *, by: str = ""
    ) -> list[Contact]:
        with self.definitions.reject_sensitive("contacts", names):
            found = list(self._api.batch_reads("contacts", keys, names, by=by))
        return [self._contact_of(answer, record, names) for answer, record in found]

    def _contact_of(
        self, answer: Answer, record: Mapping[str, Any], names: Sequence[str]
    ) -> Contact:
        # HubSpot sends null for a property without a value, and omits unknown properties.
        values = answer.mapping(record.get("properties"))
        properties = {name: text_of(values[name]) for name in names if name in values}
        contact_id = answer.id(record)
        return Contact(contact_id, properties, self._api.page("contacts", contact_id, record))

    def _by_phone(self, phones: Sequence[str], names: Sequence[str]) -> dict[str, Contact]:
        """The search lags, so only the ids come from it; the properties are read once more."""
        ids_by_phone = self._search(phones)
        ids = dict.fromkeys(id for phone_ids in ids_by_phone.values() for id in phone_ids)
        all_names = list(dict.fromkeys((*names, *PHONES)))
        return oldest_holders(ids_by_phone, self._contacts(list(ids), all_names), names)

    def _search(self, phones: Sequence[str]) -> dict[str, list[str]]:
        if self._calculated_phones:
            try:
                return self._searched(phones, calculated=True)
            except Rejected:
                pass
        # Accounts without the calculated properties are searched by the stored notation.
        ids_by_phone = self._searched(phones, calculated=False)
        self._calculated_phones = False
        return ids_by_phone

    def _searched(self, phones: Sequence[str], *, calculated: bool) -> dict[str, list[str]]:
        ids_by_phone: dict[str, list[str]] = {}
        path = self._api.path("objects", "contacts", "search")

        search_for = partial(_phone_search, calculated=calculated)

        def fits(batch: Sequence[str]) -> bool:
            return len(json.dumps(search_for(batch))) <= _SEARCH_BODY

        for batch in groups_that_fit(phones, fits):
            body, after = search_for(batch), "0"
            while after:
                answer = self._api.listed("POST", *path, body=body | {"after": after}, lane=SEARCH)
                for record in answer.items():
                    # The search ignores country codes, so compare the whole number.
                    numbers = answer.mapping(record.get("properties"))
                    for phone in batch:
                        if has_number(numbers, phone):
                            ids_by_phone.setdefault(phone, []).append(answer.id(record))
                # The first are the oldest; HubSpot shows the first 10,000 only.
                after = "" if ids_by_phone.keys() >= {*batch} else next_page(answer, after=after)
        return ids_by_phone

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact; one with neither email nor name gets its phone as first name, too."""
        try:
            return self._create("contacts", properties, mark, [])
        except Rejected as refused:
            refused_names = {problem.name for problem in refused.problems}
            phone = next(filter(None, map(properties.get, PHONES)), "")
            has_name = any(map(properties.get, _CALLED))
            if has_name or not phone or refused_names & properties.keys():
                raise
        return self._create("contacts", {**properties, "firstname": phone}, mark, [])

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        self.check_id(contact_id)
        link = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": _TO_CONTACT[kind]}
        return self._create(kind, properties, mark, [{"to": {"id": contact_id}, "types": [link]}])

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Update a contact; a lifecycle stage that HubSpot ignored is listed as refused."""
        self.check_id(contact_id)
        path = self._api.path("objects", "contacts", contact_id)
        answer, sent = self._send("PATCH", path, "contacts", properties)
        record = answer.object()
        saved = self._api.saved("contacts", answer, record, "updated")
        present = text_of(value_at(record, "properties", _LIFECYCLE))
        if present and sent.get(_LIFECYCLE) and present != sent[_LIFECYCLE]:
            outcome: Outcome = "unchanged" if len(sent) == 1 else "updated"
            return replace(saved, outcome=outcome, refused=(_backward_problem(present),))
        return saved

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        fit = self.fitting.fitted("contacts", properties)
        current = contact.properties
        refused: tuple[Problem, ...] = ()
        stage, new_stage = current.get(_LIFECYCLE, ""), fit.get(_LIFECYCLE, "")
        if stage and new_stage and self._is_backward(stage, new_stage):
            del fit[_LIFECYCLE]
            refused = (_backward_problem(stage),)
        return Changes({n: v for n, v in fit.items() if current.get(n) != v}, refused)

    def _is_backward(self, present: str, wanted: str) -> bool:
        described = self.definitions.properties("contacts", [_LIFECYCLE]).get(_LIFECYCLE)
        stages = [option.value for option in described.options] if described else []
        return {present, wanted} <= set(stages) and stages.index(wanted) < stages.index(present)

    def _create(
        self, kind: Written, properties: Mapping[str, str], mark: str, links: Sequence[Any]
    ) -> Saved:
        """Return the record of an earlier attempt with this mark, if there is one."""
        try:
            path = self._api.path("objects", kind)
            answer, _ = self._send("POST", path, kind, properties, mark=mark, links=links)
        except Conflict as clash:
            earlier = self.find_unique_mark(kind, mark) if clash.name == self.mark_name else None
            if earlier is None:
                raise
            return earlier
        return self._api.saved(kind, answer, answer.object(), "created")

    def find_unique_mark(self, kind: Written, mark: str) -> Saved | None:
        path = self._api.path("objects", kind, mark)
        try:
            answer = self._api.send("GET", *path, params={"idProperty": self.mark_name})
        except NotFound:
            return None
        return self._api.saved(kind, answer, answer.object(), "created")

    def _send(
        self,
        method: str,
        path: Sequence[str],
        kind: Written,
        properties: Mapping[str, str],
        *,
        mark: str = "",
        links: Sequence[Any] | None = None,
    ) -> tuple[Answer, dict[str, str]]:
        """Return HubSpot's response and the sent properties; Rejected has all unsuitable values."""

        def send(fit: dict[str, str]) -> Answer:
            sent = fit | self.mark_to_send(kind, mark)
            body: dict[str, Any] = {"properties": sent}
            if links is not None:
                # A new record has no values to clear.
                body = {"properties": {n: v for n, v in sent.items() if v}, "associations": links}
            try:
                with self.definitions.reject_sensitive(kind, body["properties"]):
                    return self._api.send(method, *path, body=body)
            except Rejected as refused:
                names = {one.name for one in refused.problems}
                if not mark or self.mark_name not in names & sent.keys():
                    raise
                if self.mark_to_send(kind, mark, newer_than=0.0):
                    self.raise_for_mark(kind, {}, refused)
            return send(fit)

        return self.fitting.write(kind, properties, send)

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        fit = partial(self.fitting.fitted, "contacts")
        return write_batches(writes, fit=fit, send=self._send_batch)

    def _send_batch(
        self, action: Action, items: Mapping[int, ContactWrite], results: Results
    ) -> None:
        # Not HubSpot's batch upsert: it resets the properties that are not sent.
        inputs = []
        for index, item in items.items():
            # Without trace ids a batch succeeds or fails as a whole.
            sent: dict[str, Any] = {_TRACE: str(index), "properties": item.properties}
            if action == "update":
                inputs.append(sent | {"id": item.contact_id})
            else:
                properties = {**item.properties, **self.mark_to_send("contacts", item.mark)}
                inputs.append(sent | {"properties": properties, "associations": []})
        names = {name for sent in inputs for name in sent["properties"]}
        path = self._api.path("objects", "contacts", "batch", action)
        with self.definitions.reject_sensitive("contacts", names):
            answer = self._api.send("POST", *path, body={"inputs": inputs})
        self._add_results(answer, items, "updated" if action == "update" else "created", results)

    def _add_results(
        self, answer: Answer, items: Mapping[int, ContactWrite], outcome: Outcome, results: Results
    ) -> None:
        written = answer.items()
        for record in written:
            index = _index_of(record, items)
            if index is not None:
                results[index] = self._api.saved("contacts", answer, record, outcome)
        for failed in objects_in(answer.object().get("errors")):
            # Masked like a failed answer, since people read these errors.
            clean = json.loads(self._api.mask(json.dumps(failed)))
            error = item_failure(answer, clean)
            for index in _indexes_in(failed) & items.keys():
                if not _may_succeed_alone(error, {*items[index].properties, self.mark_name}):
                    results[index] = error
        if answer.status != 207 and len(written) < len(items):
            for index in items:
                error = Uncertain("HubSpot's answer to a batch leaves this one out.")
                results.setdefault(index, error)

    def search_mark(self, mark: str) -> Saved | None:
        path = self._api.path("objects", "contacts", "search")
        body = _search_body({self.mark_name: [mark.lower()]})
        answer = self._api.listed("POST", *path, body=body, lane=SEARCH)
        for record in answer.items():
            return self._api.saved("contacts", answer, record, "created")
        return None

    def candidates(
        self, kind: Linked, contact_id: str, names: Iterable[str], others: Collection[str]
    ) -> Iterator[Candidate]:
        self.check_id(contact_id)
        path = self._api.path("objects", "contacts", contact_id, "associations", kind)
        # Unlike searches, links do not lag.
        ids = [
            answer.id({"id": link.get("toObjectId")})
            for answer in self._api.pages(path, self._api.send)
            for link in answer.items()
        ]
        ids = [id for id in dict.fromkeys(ids) if id not in others]
        for answer, record in self._api.batch_reads(kind, ids, names):
            saved = self._api.saved(kind, answer, record, "created")
            values = answer.mapping(record.get("properties"))
            yield Candidate(saved, parse_time(record.get("createdAt")), values)

    def clock_ahead(self) -> float:
        return self._api.http.clock_ahead

    def describe(self, kind: Kind) -> list[Described]:
        described = super().describe(kind)
        required = self.definitions.required(kind)
        return [replace(one, required=one.name in required) for one in described]

    def check(self) -> None:
        """Call every endpoint that needs a right; LacksRight has all missing rights."""
        missing: list[str] = []
        for kind, (reads, writes) in SCOPES.items():
            self._try(missing, reads, "GET", "objects", kind, params={"limit": "1"})
            # HubSpot checks rights first, and an empty batch writes nothing.
            with suppress(Rejected):
                path = ("objects", kind, "batch", "update")
                self._try(missing, writes, "POST", *path, body={"inputs": []})
        self._try(missing, OWNERS_SCOPE, "GET", "owners", params={"limit": "1"})
        if missing:
            raise LacksRight(
                "The access token lacks rights in HubSpot; give it the scopes"
                f" {', '.join(dict.fromkeys(missing))}."
            )

    def _try(self, missing: list[str], scope: str, method: str, *path: str, **options: Any) -> None:
        try:
            self._api.listed(method, *self._api.path(*path), **options).items()
        except MissingScopes:
            missing.append(scope)


def _search_body(values_by_name: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    groups = [
        {"filters": [{"propertyName": name, "operator": "IN", "values": values}]}
        for name, values in values_by_name.items()
    ]
    common = {"properties": list(PHONES), "sorts": ["createdate"], "limit": 200, "after": "0"}
    return {"filterGroups": groups, **common}


def _phone_search(phones: Sequence[str], *, calculated: bool) -> dict[str, Any]:
    most_forms = 1 if calculated and len(phones) > 1 else None
    typed = [form.lower() for phone in phones for form in notations(phone)[:most_forms]]
    values_by_name = dict.fromkeys(PHONES, typed)
    plain = [digits for phone in phones for digits in nationals(phone)]
    if calculated and plain:
        values_by_name |= dict.fromkeys(_CALCULATED_PHONES, plain)
    return _search_body(values_by_name)


def _backward_problem(present: str) -> Problem:
    reason = f'HubSpot moves the stage only forward, and it is "{present}" already; clear it first'
    return Problem(_LIFECYCLE, reason)


def _index_of(record: Mapping[str, Any], items: Mapping[int, ContactWrite]) -> int | None:
    email = text_of(value_at(record, "properties", "email")).lower()
    for index, item in items.items():
        if _TRACE in record:
            same = record[_TRACE] == str(index)
        elif item.contact_id:
            same = item.contact_id == record.get("id")
        else:
            same = item.properties.get("email") == email
        if same:
            return index
    return None


def _may_succeed_alone(error: AdapterError, sent: Set[str]) -> bool:
    """Sent alone, a conflict names the contact with the email, and refused values are refitted."""
    if isinstance(error, Rejected):
        return bool({problem.name for problem in error.problems} & (sent - _PLAIN))
    return isinstance(error, Conflict | NotFound)


def _indexes_in(failed: Mapping[str, Any]) -> set[int]:
    traces = value_at(failed, "context", _TRACE)
    listed = traces if isinstance(traces, list) else []
    return {int(trace) for trace in listed if isinstance(trace, str) and trace.isdecimal()}
