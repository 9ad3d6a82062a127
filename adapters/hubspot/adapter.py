from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Literal

from adapters.hubspot.changes import CHANGED, DELETED, LOAD, Last, Position
from adapters.hubspot.connecting import GUIDES, OWNERS_SCOPE, SCOPES, SETTINGS, oauth
from adapters.hubspot.failures import MissingScopes, TooLong, failure, item_failure
from adapters.hubspot.webhooks import events_in
from crmhub import adapter as hub
from crmhub.adapter import Contact, Kind, Linked, Problem, Rejected, Saved, Written
from crmhub.adapter.answers import Answer, objects_in, parse_time, text_of, value_at
from crmhub.adapter.batches import Action, Results, groups_that_fit
from crmhub.adapter.creates import Candidate, find_created
from crmhub.adapter.fields import Field
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.http import Limit, TooLarge
from crmhub.adapter.marked import MarkedAdapter
from crmhub.adapter.phones import PHONES, has_number, nationals, notations
from crmhub.adapter.remembered import Remembered
from crmhub.adapter.table_adapter import TableAdapter, TableDefinitions
from crmhub.adapter.tables import CODECS, Records, Row, Write
from crmhub.adapter.types import from_html, to_html

SEARCH = "search"
_BATCH = 100
# HubSpot accepts 3,000 characters in a search (its search guide). The limit for URLs is unknown;
# proxies between the hub and HubSpot may have limits, too.
_SEARCH_BODY, _LONGEST_QUERY = 2_900, 2_000
# The seconds that must be left for a call that finds the URL of a record's page.
_SPARE_S = 1.0
_LEVELS = ("non_sensitive", "sensitive", "highly_sensitive")
# Display hints that refine HubSpot's type.
_HINT_NAMES = ("textDisplayHint", "numberDisplayHint", "fieldType")
_HINTS = {
    "enumeration checkbox": "multi_enumeration",
    "number currency": "currency",
    "string email": "email",
    "string phone_number": "phone",
    "string phonenumber": "phone",
    "string physical_address": "text",
    "string textarea": "text",
    "string html": "text",
}
_LIFECYCLE = "lifecyclestage"
# HubSpot requires one of these for a contact.
_CALLED = ("email", "firstname", "lastname")
# These are text in every account, so writing them does not need the large definitions.
_PLAIN = frozenset(
    {*_CALLED, *PHONES, "company", "jobtitle", "address", "city", "state", "zip", "country"}
    | {"website", "message"}
)
# HubSpot calculates these properties without the country code; its search uses them.
_CALCULATED_PHONES = (
    "hs_searchable_calculated_phone_number",
    "hs_searchable_calculated_mobile_number",
)
_CHANGED, _CREATED = "hs_lastmodifieddate", "createdate"
_HTML = ("hs_note_body", "hs_task_body")
_TASK = {
    "subject": "hs_task_subject",
    "notes": "hs_task_body",
    "due": "hs_timestamp",
    "owner": "hubspot_owner_id",
    "priority": "hs_task_priority",
}
# Association types of notes, by the kind of record.
_NOTE_TO: Mapping[Written, int] = {"contacts": 202, "deals": 214, "tickets": 228}
_TASK_TO_CONTACT = 204
_MERGED = "hs_merged_object_ids"
_NO_WEBHOOKS = (
    "Enter the client secret of the HubSpot app that sends the webhooks; a service key has none."
)
# Association types differ by direction: these lead to the contact.
_TO_CONTACT = {"deals": 3, "tickets": 16}
_TRACE = "objectWriteTraceId"
# The responses to searches have no such headers.
_LIMIT_HEADERS = ("X-HubSpot-RateLimit-Max", "X-HubSpot-RateLimit-Interval-Milliseconds")


class HubSpotDefinitions(TableDefinitions):
    lists = _LEVELS
    hidden = (MissingScopes,)
    _adapter: HubSpotAdapter

    def __init__(self, adapter: TableAdapter) -> None:
        super().__init__(adapter)
        self._required = self.shared("required", self._load_required, adapter.kinds)

    @contextmanager
    def renamed(self, kind: Kind, sent: Iterable[str]) -> Iterator[None]:
        """Convert MissingScopes to Rejected if a sensitive one of the properties caused it.

        Every token may read their definitions, but values need further scopes (HubSpot's guide to
        sensitive data), and a call without these fails as a whole.
        """
        try:
            yield
        except MissingScopes as lacking:
            levels = {n: level for level in _LEVELS[1:] for n in self.in_list(level, kind, sent)}
            if not levels:
                raise
            problems = [Problem(name, _out_of_reach(kind, level)) for name, level in levels.items()]
            raise Rejected(problems) from lacking

    def load_list(self, name: str, kind: Kind) -> dict[str, hub.Described] | None:
        try:
            return {one.name: one for one in self._adapter.load_fields(kind, level=name)}
        except TooLarge:
            return None
        except (hub.LacksRight, Rejected):
            if name == _LEVELS[0]:
                raise
            # Not every plan has sensitive data.
            return {}

    def load_named(self, name: str, kind: Kind, names: Sequence[str]) -> dict[str, hub.Described]:
        return {one.name: one for one in self._adapter.load_fields(kind, level=name, names=names)}

    def load_mark(self, kind: Kind) -> tuple[bool, float] | None:
        try:
            mark = self._adapter.call("GET", "properties", kind, self._adapter.mark_name).object()
        # Without the right to read the property, or without the property, writes have no mark.
        except (hub.NotFound, MissingScopes):
            return None
        if mark.get("type") != "string" or _is_read_only(mark):
            return None
        changed = mark.get("updatedAt") or mark.get("createdAt")
        return bool(mark.get("hasUniqueValue")), parse_time(changed)

    def described(self, kind: Kind) -> list[hub.Described]:
        described, required = super().described(kind), self._required[kind].get()
        return [replace(one, required=one.name in required) for one in described]

    def _load_required(self, kind: Kind) -> list[str]:
        try:
            schema = self._adapter.call("GET", "crm-object-schemas", "schemas", kind)
        # The right to read the account's schemas is optional.
        except (MissingScopes, hub.NotFound, Rejected):
            return []
        names = schema.object().get("requiredProperties")
        return [text_of(name) for name in names] if isinstance(names, list) else []


def _kind(path: str, type_id: str, *, changed: str = _CHANGED) -> Records:
    page = f"record/{type_id}/{{id}}"
    return Records(path, page=page, changed=changed, created="createdAt")


class HubSpotAdapter(MarkedAdapter):
    """`active_workflow` is missing, since no API version reports a contact's workflows."""

    title = "HubSpot"
    email_names = ("email", "hs_additional_emails")
    record_pages = True
    batch_size = _BATCH
    # A create with a taken email is a 409 that names the contact, even if it is a secondary email.
    unique_emails = True
    under_way_s = 30.0
    # HubSpot takes 65,536 characters of HTML, where a character may become five (&amp;).
    longest_note = 13_000
    settings = SETTINGS
    guides = GUIDES
    address = "base_url or api_version"
    # 207 of a batch that lacks records.
    list_statuses = (200, 207)
    token_name = "access_token"
    mark_setting = "mark_property"
    correlation_header = "x-hubspot-correlation-id"
    # The limits until a response has rate limit headers. HubSpot allows each app 100 calls in 10 s,
    # and each account 5 searches per second, which all of its apps share (its usage guidelines).
    limits = (Limit(100, 10.0, headers=_LIMIT_HEADERS), Limit(4, 1.0, lane=SEARCH))
    failure = token_failure = staticmethod(failure)
    definitions_class = HubSpotDefinitions
    definitions: HubSpotDefinitions
    kinds: ClassVar = {
        "contacts": _kind("contacts", "0-1", changed="lastmodifieddate"),
        "companies": _kind("companies", "0-2"),
        "deals": _kind("deals", "0-3"),
        "tickets": _kind("tickets", "0-5"),
    }

    def __init__(self, context: hub.Context) -> None:
        super().__init__(context)
        self.fitting = Fitting(self.definitions, owner=self.owner_name, plain=_PLAIN)
        self._calculated_phones = True
        self._account = Remembered(self._load_account, context)
        self._readable = Remembered(self._load_readable, context)

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> hub.OAuth | None:
        return oauth(settings)

    # Calls.

    def call(self, method: str, *path: str, **options: Any) -> Answer:
        version = self.context.settings["api_version"]
        is_object = path[0] in self.kinds or path[0] in ("notes", "tasks")
        area, *rest = ("objects", *path) if is_object else path
        full = ["crm", area, version, *rest]
        if area in ("account-info", "crm-object-schemas"):
            del full[0]
        elif version == "v3":
            # Links between records are in the version v4 of otherwise the same paths.
            full = ["crm", "v4" if "associations" in (area, *rest) else "v3", area, *rest]
        return super().call(method, *full, **options)

    def listed(self, method: str, *path: str, absent: bool = False, **options: Any) -> Answer:
        """Raises Unavailable if the list is incomplete; with `absent`, records may be missing."""
        answer = super().listed(method, *path, **options)
        answer.items()
        failed = objects_in(answer.object().get("errors"))
        is_whole = answer.status == 200 and not failed
        if absent and all(error.get("category") == "OBJECT_NOT_FOUND" for error in failed):
            is_whole = True
        if not is_whole or answer.object().get("status", "COMPLETE") != "COMPLETE":
            raise answer.broken("a whole list was expected")
        return answer

    def next_page(self, answer: Answer, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        after = text_of(value_at(answer.object(), "paging", "next", "after"))
        return {**params, "after": after} if after not in ("", params.get("after")) else None

    def read_batches(
        self, *path: str, body: Mapping[str, Any], inputs: Sequence[Mapping[str, str]]
    ) -> Iterator[Answer]:
        for start in range(0, len(inputs), _BATCH):
            part = {**body, "inputs": inputs[start : start + _BATCH]}
            yield self.listed("POST", *path, "batch", "read", absent=True, body=part)

    def _records(
        self, kind: str, ids: Iterable[str], names: Iterable[str], *, by: str = ""
    ) -> Iterator[Row]:
        """Leave out missing records; `by`: the unique property of `ids`."""
        body: dict[str, Any] = {"properties": list(names), "propertiesWithHistory": []}
        body |= {"idProperty": by} if by else {}
        for answer in self.read_batches(kind, body=body, inputs=[{"id": one} for one in ids]):
            yield from (self.row(answer, record) for record in answer.items())

    # Reading.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        if not email:
            return super().find_contact(phone=phone, names=names)
        try:
            return self.contact(self.read(email, names, by="email"), names)
        except hub.NotFound:
            return None

    def find(self, by: str, values: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        if by == "phone":
            # The search lags, so only the ids come from it.
            values, by = self._search_phones(values), ""
        with self.definitions.renamed("contacts", names):
            yield from self._records("contacts", values, names, by=by)

    def read(self, contact_id: str, names: Sequence[str], *, by: str = "") -> Row:
        params = {"idProperty": by} if by else {}
        params |= {"properties": ",".join(names)} if names else {}
        with self.definitions.renamed("contacts", names):
            with suppress(TooLong):
                if len(params.get("properties", "")) <= _LONGEST_QUERY:
                    return self.row(self.call("GET", "contacts", contact_id, params=params or None))
            for row in self._records("contacts", [contact_id], names, by=by):
                return row
        raise hub.NotFound("HubSpot has no such contact")

    def age(self, row: Row) -> Any:
        return parse_time(row.get("createdAt")), *super().age(row)

    def contact(self, row: Row, names: Iterable[str]) -> Contact:
        # HubSpot sends null for a property without a value, and omits unknown properties.
        values = _values(row)
        properties = {name: text_of(values[name]) for name in names if name in values}
        return Contact(row["id"], properties, self._page("contacts", row))

    def saved(self, kind: Kind, row: Row, outcome: hub.Outcome) -> Saved:
        return Saved(row["id"], outcome, self._page(kind, row))

    def _page(self, kind: Kind, row: Row) -> str:
        if isinstance(row.get("url"), str) and row["url"]:
            return str(row["url"])
        # Raised while another thread asks.
        with suppress(hub.Unavailable):
            if self.context.remaining() >= _SPARE_S and (account := self._account.get()):
                return account + self.kinds[kind].page.format(id=row["id"])
        return ""

    def _load_account(self) -> str:
        # The write succeeded, so a missing page address must not fail it or cause more calls.
        with suppress(hub.AdapterError):
            account = self.call("GET", "account-info", "details").object()
            if account.get("portalId") and account.get("uiDomain"):
                return f"https://{account['uiDomain']}/contacts/{account['portalId']}/"
        return ""

    # Searches.

    def _search_phones(self, phones: Sequence[str]) -> list[str]:
        if self._calculated_phones:
            with suppress(Rejected):
                return self._holders(phones, calculated=True)
        # Accounts without the calculated properties are searched by the stored notation.
        ids = self._holders(phones, calculated=False)
        self._calculated_phones = False
        return ids

    def _holders(self, phones: Sequence[str], *, calculated: bool) -> list[str]:
        search = partial(_phone_search, calculated=calculated)
        ids: dict[str, None] = {}
        for group in groups_that_fit(
            phones, lambda some: len(json.dumps(search(some))) <= _SEARCH_BODY
        ):
            missing = {*group}
            body: Mapping[str, Any] | None = search(group)
            # The first are the oldest; HubSpot shows the first 10,000 only.
            while body and missing:
                answer = self.listed("POST", "contacts", "search", body=body, lane=SEARCH)
                for record in answer.items():
                    # The search ignores country codes, so compare the whole number.
                    numbers = answer.mapping(record.get("properties"))
                    held = {phone for phone in group if has_number(numbers, phone)}
                    ids |= {answer.id(record): None} if held else {}
                    missing -= held
                body = self.next_page(answer, body)
        return list(ids)

    # Writing.

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact; one with neither email nor name gets its phone as first name, too."""
        try:
            return super().create_contact(properties, mark=mark)
        except Rejected as refused:
            refused_names = {problem.name for problem in refused.problems}
            phone = next(filter(None, map(properties.get, PHONES)), "")
            has_name = any(map(properties.get, _CALLED))
            if has_name or not phone or refused_names & properties.keys():
                raise
        return super().create_contact({**properties, "firstname": phone}, mark=mark)

    def before_write(self, write: Write) -> None:
        write.values |= self.mark_to_send(write.kind, write.mark)

    def convert(self, write: Write) -> None:
        write.values = {**write.fit}

    def send(self, write: Write) -> Row:
        body: dict[str, Any] = {"properties": write.values}
        if write.record_id:
            return self.row(self.call("PATCH", write.kind, write.record_id, body=body))
        body["associations"] = []
        if write.contact and (type_id := _TO_CONTACT.get(write.kind)):
            body["associations"] = [_association(type_id, write.contact["id"])]
        try:
            return self.row(self.call("POST", write.kind, body=body))
        except hub.Conflict as clash:
            of_mark = clash.name == self.mark_name
            earlier = self.find_unique_mark(write.kind, write.mark) if of_mark else None
            if earlier is None:
                raise
            return {"id": earlier.id, "url": earlier.url}
        except Rejected as refused:
            names = {one.name for one in refused.problems}
            if self.mark_name not in names & (write.values.keys() - write.sent.keys()):
                raise
            if self.mark_to_send(write.kind, write.mark, newer_than=0.0):
                self.raise_for_mark(write, refused)
        del write.values[self.mark_name]
        return self.send(write)

    def after_write(self, write: Write, saved: Saved) -> Saved:
        """A lifecycle stage that HubSpot ignored is listed as refused."""
        sent = write.values.get(_LIFECYCLE)
        present = text_of(value_at(write.row, "properties", _LIFECYCLE))
        if not (write.record_id and sent and present) or present == sent:
            return saved
        outcome: hub.Outcome = "unchanged" if len(write.values) == 1 else "updated"
        return replace(saved, outcome=outcome, refused=(_backward_problem(present),))

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> hub.Changes:
        fit = self.fitting.fitted("contacts", properties)
        current = contact.properties
        refused: tuple[Problem, ...] = ()
        stage, new_stage = current.get(_LIFECYCLE, ""), fit.get(_LIFECYCLE, "")
        if stage and new_stage and self._is_backward(stage, new_stage):
            del fit[_LIFECYCLE]
            refused = (_backward_problem(stage),)
        return hub.Changes({n: v for n, v in fit.items() if current.get(n) != v}, refused)

    def _is_backward(self, present: str, wanted: str) -> bool:
        described = self.definitions.properties("contacts", [_LIFECYCLE]).get(_LIFECYCLE)
        stages = [option.value for option in described.options] if described else []
        return {present, wanted} <= {*stages} and stages.index(wanted) < stages.index(present)

    def send_batch(
        self, action: Action, items: Mapping[int, hub.ContactWrite], results: Results
    ) -> None:
        # Not HubSpot's batch upsert: it resets the properties that are not sent.
        inputs = []
        for index, item in items.items():
            properties = {**item.properties, **self.mark_to_send("contacts", item.mark)}
            # Without trace ids a batch succeeds or fails as a whole.
            sent: dict[str, Any] = {_TRACE: str(index), "properties": properties}
            sent["id" if item.contact_id else "associations"] = item.contact_id or []
            inputs.append(sent)
        names = {name for sent in inputs for name in sent["properties"]}
        with self.definitions.renamed("contacts", names):
            answer = self.call("POST", "contacts", "batch", action, body={"inputs": inputs})
        outcome: hub.Outcome = "updated" if action == "update" else "created"
        indexes = {
            key: index
            for index, item in items.items()
            for key in (f"trace {index}", item.contact_id or item.properties.get("email"))
        }
        written = [self.row(answer, record) for record in answer.items()]
        for row in written:
            email = text_of(value_at(row, "properties", "email")).lower()
            keys = [f"trace {row.get(_TRACE)}", row["id"], email]
            for index in [indexes[key] for key in keys if key in indexes][:1]:
                results[index] = self.saved("contacts", row, outcome)
        for failed in objects_in(answer.object().get("errors")):
            # Masked like a failed answer, since people read these errors.
            error = item_failure(answer, json.loads(self.http.mask(json.dumps(failed))))
            traces = value_at(failed, "context", _TRACE)
            keys = [f"trace {one}" for one in traces] if isinstance(traces, list) else []
            for index in {indexes[key] for key in keys if key in indexes}:
                if not _may_succeed_alone(error, {*items[index].properties, self.mark_name}):
                    results[index] = error
        if answer.status != 207 and len(written) < len(items):
            for index in items:
                lost = hub.Uncertain("HubSpot's answer to a batch leaves this one out.")
                results.setdefault(index, lost)

    # A copy of the records.

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> hub.ChangedPage:
        self.check_kind(kind)
        at, sent = Position.of(since), time.time()
        changed, rows, deleted = self.kinds[kind].changed, list[Row](), list[str]()
        total = self._count(kind) if names and not since else None
        asked: dict[str, Any] = at.params()
        if at.phase == LOAD:
            answer, rows = self._load(kind, names, asked)
        elif at.phase == DELETED:
            answer = self.listed("GET", kind, params=asked)
        else:
            asked = at.search(changed)
            answer = self.listed("POST", kind, "search", body=asked, lane=SEARCH)
            rows = self.read_several(kind, _ids(answer.items()), names)
        now, last = int((sent + self.clock_ahead()) * 1000), Last(at.after, at.since)
        for item in answer.items():
            last = Last(answer.id(item), _ms(item, "properties", changed))
            if at.phase == DELETED and (_ms(item, "archivedAt") or now) >= at.deleted_since:
                deleted.append(last.id)
        if at.phase == CHANGED and not last.changed:
            raise answer.broken("it does not say when a record changed")
        following = self.next_page(answer, asked)
        cursor = str(following["after"]) if following else ""
        overlap = int(self.search_lag_s * 1000)
        behind = at.next(last, cursor=cursor, now=now, overlap=overlap)
        return hub.ChangedPage(
            tuple(self.to_record(kind, row, names) for row in rows),
            behind.text(),
            at.phase != DELETED or behind.phase == DELETED,
            tuple(deleted),
            {old: row["id"] for row in rows for old in _merged_ids(row)},
            total,
        )

    def _count(self, kind: Kind) -> int | None:
        """Return how many records there are, as far as the search knows."""
        every = {"filterGroups": [], "properties": [], "sorts": [], "limit": 1, "after": "0"}
        answer = self.listed("POST", kind, "search", body=every, lane=SEARCH)
        total = answer.object().get("total")
        return total if isinstance(total, int) else None

    def _load(
        self, kind: Kind, names: Sequence[str], params: Mapping[str, str]
    ) -> tuple[Answer, list[Row]]:
        """Read a page of the list of all records."""
        asked = self._asked(kind, names)
        is_short = len(",".join(asked)) <= _LONGEST_QUERY
        shown = self._shown(kind, asked if is_short else [_MERGED])
        answer = self.listed("GET", kind, params={**params, **shown})
        rows = [self.row(answer, item) for item in answer.items()]
        if not is_short:
            whole = {row["id"]: row for row in self._records(kind, _ids(rows), asked)}
            rows = [{**row, **whole[row["id"]]} for row in rows if row["id"] in whole]
        return answer, self._with_links(kind, rows, listed=True)

    def read_several(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> list[Row]:
        asked, wanted = self._asked(kind, names), {*ids}
        # A batch shows no links, and takes a further call for each kind of them.
        one_by_one = len(ids) <= len(self._others(kind)) and len(",".join(asked)) <= _LONGEST_QUERY
        found = [*self._one_by_one(kind, ids, asked)] if one_by_one else []
        if len(found) < len(ids):
            # Only an answer to a batch proves that a record is missing.
            one_by_one, found = False, [*self._records(kind, ids, asked)]
        # The id of a merged record leads to another one.
        rows = {row["id"]: row for row in found if row["id"] in wanted}
        return self._with_links(kind, [*rows.values()], listed=one_by_one)

    def _one_by_one(self, kind: Kind, ids: Sequence[str], asked: Sequence[str]) -> Iterator[Row]:
        for one in ids:
            with suppress(hub.NotFound):
                yield self.row(self.call("GET", kind, one, params=self._shown(kind, asked)))

    def _shown(self, kind: Kind, asked: Sequence[str]) -> dict[str, str]:
        """Return the parameters for these properties, and the links to all other kinds."""
        return {"properties": ",".join(asked), "associations": ",".join(self._others(kind))}

    def _asked(self, kind: Kind, names: Sequence[str]) -> list[str]:
        """Sensitive properties are never asked for."""
        known = self.definitions.in_list(_LEVELS[0], kind, names)
        return [_MERGED, *(name for name in names if name in known)]

    def _others(self, kind: Kind) -> list[Kind]:
        """Return the other kinds of records that the token may read."""
        return [one for one in self._readable.get() if one != kind]

    def _load_readable(self) -> list[Kind]:
        first = {"limit": "1"}
        probes = [(kind, partial(self.listed, "GET", kind, params=first)) for kind in self.kinds]
        missing = self.lacking(probes)
        return [kind for kind in self.kinds if kind not in missing]

    def _with_links(self, kind: Kind, rows: Sequence[Row], *, listed: bool = False) -> list[Row]:
        """Add the links to rows; those of a list have their first links already."""
        links: dict[Kind, dict[str, list[str]]] = {}
        for to in self._others(kind):
            shown = {row["id"]: value_at(row, "associations", to) for row in rows if listed}
            whole = {one: of for one, of in shown.items() if not value_at(of, "paging")}
            links[to] = {
                one: _ids(objects_in(value_at(of, "results"))) for one, of in whole.items()
            }
            links[to] |= self._links(kind, to, [one for one in _ids(rows) if one not in whole])
        return [{**row, "links": {to: links[to][row["id"]] for to in links}} for row in rows]

    def _links(self, kind: Kind, to: Kind, ids: Sequence[str]) -> dict[str, list[str]]:
        links: dict[str, list[str]] = {one: [] for one in ids}
        inputs = [{"id": one} for one in ids]
        while inputs:
            following = []
            # Unlike searches, links do not lag. A record without any is an error in the answer.
            for answer in self.read_batches("associations", kind, to, body={}, inputs=inputs):
                for item in answer.items():
                    source = answer.id(answer.mapping(item.get("from")))
                    linked = objects_in(item.get("to"))
                    ids_of = [answer.id({"id": one.get("toObjectId")}) for one in linked]
                    links.setdefault(source, []).extend(ids_of)
                    if after := text_of(value_at(item, "paging", "next", "after")):
                        following.append({"id": source, "after": after})
            inputs = following
        return links

    def to_record(self, kind: Kind, row: Row, names: Iterable[str]) -> hub.Record:
        values, changed = _values(row), _ms(row, "updatedAt")
        if not changed:
            raise hub.Unavailable("HubSpot does not say when a record changed.")
        texts = {name: text_of(values[name]) for name in names if name in values}
        links = {to: tuple(dict.fromkeys(ids)) for to, ids in row["links"].items()}
        url = self._page(kind, row)
        return hub.Record(row["id"], texts, changed, _ms(row, "createdAt"), links, url)

    def delete(self, kind: Kind, record_id: str) -> None:
        self.existing(kind, record_id)
        answer = self.call("DELETE", kind, record_id)
        if answer.status != 204:
            raise answer.broken("it does not say that the record is deleted")

    def existing(self, kind: Kind, record_id: str) -> Row:
        """HubSpot answers 204 to a deletion of any id; that of a merged record leads elsewhere."""
        row = self.row(self.call("GET", kind, record_id))
        if row["id"] != record_id:
            raise hub.NotFound("HubSpot has merged this record into another one")
        return row

    def merge_into(self, kind: Kind, kept_id: str, other_id: str) -> Row:
        body = {"primaryObjectId": kept_id, "objectIdToMerge": other_id}
        return self.row(self.call("POST", kind, "merge", body=body))

    def link(
        self, kind: Kind, record_id: str, to: Kind, to_id: str, *, remove: bool = False
    ) -> None:
        self.check_kind(kind)
        self.check_kind(to)
        if kind == to:
            raise hub.Unsupported(f"The hub does not associate {kind} with {to} in HubSpot.")
        for of, one in ((kind, record_id), (to, to_id)):
            self.check_id(one)
            self.existing(of, one)
        if not remove:
            # The association without a label; the answer lists its types.
            path = (kind, record_id, "associations", "default", to, to_id)
            answer = self.call("PUT", *path)
            if answer.status != 200 or not answer.items():
                raise answer.broken("it lists no association")
            return
        answer = self.call("DELETE", kind, record_id, "associations", to, to_id)
        if answer.status != 204:
            raise answer.broken("it does not say that the association is removed")

    def events(self, request: hub.WebhookRequest) -> list[hub.Event]:
        secrets = self.context.credentials
        secret = secrets["webhook_secret"] or secrets["client_secret"]
        if not secret:
            raise hub.Unsupported(_NO_WEBHOOKS)
        return events_in(request, secret)

    # Notes and tasks.

    def add_note(
        self, kind: Written, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        at = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        values = {"hs_note_body": text, "hs_timestamp": at}
        return self._add("notes", _NOTE_TO[kind], kind, record_id, values, mark)

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        if unknown := properties.keys() - _TASK.keys():
            raise Rejected(
                [Problem(name, "HubSpot's tasks have no such property") for name in unknown]
            )
        values = {_TASK[name]: text for name, text in properties.items() if text}
        try:
            return self._add("tasks", _TASK_TO_CONTACT, "contacts", contact_id, values, mark)
        except Rejected as refused:
            ours = {theirs: name for name, theirs in _TASK.items()}
            refused.rename(lambda name: ours.get(name, name))
            raise

    def _add(
        self,
        to: Literal["notes", "tasks"],
        type_id: int,
        kind: Kind,
        record_id: str,
        values: dict[str, str],
        mark: str,
    ) -> Saved:
        """Add a note or task to a record, unless an earlier attempt has.

        They have no property for marks: an equal note has the same time, to a millisecond, and of
        two equal tasks that are not done people need one.
        """
        self.check_id(record_id)
        if to == "tasks":
            values |= {"hs_task_status": "NOT_STARTED"}
        earlier = self._earlier(to, kind, record_id, values) if mark else ()
        if found := find_created(earlier, values, since=0.0):
            return found
        htmls = {name: to_html(values[name]) for name in _HTML if name in values}
        required = {"hs_timestamp": str(int(time.time() * 1000))}
        body = {
            "properties": {**required, **values, **htmls},
            "associations": [_association(type_id, record_id)],
        }
        return Saved(self.call("POST", to, body=body).id(), "created")

    def _earlier(
        self, to: str, kind: Kind, record_id: str, values: Mapping[str, str]
    ) -> Iterator[Candidate]:
        for row in self._linked(kind, record_id, to, values):
            texts = {name: text_of(value) for name, value in _values(row).items()}
            texts |= {name: from_html(texts[name]) for name in _HTML if name in texts}
            yield Candidate(Saved(row["id"], "created"), 0.0, texts)

    # Writes without an answer.

    def find_unique_mark(self, kind: Kind, mark: str) -> Saved | None:
        try:
            answer = self.call("GET", kind, mark, params={"idProperty": self.mark_name})
        except hub.NotFound:
            return None
        return self.saved(kind, self.row(answer), "created")

    def search_mark(self, kind: Kind, mark: str) -> Saved | None:
        body = _search_body({self.mark_name: [mark.lower()]})
        answer = self.listed("POST", kind, "search", body=body, lane=SEARCH)
        rows = [self.row(answer, record) for record in answer.items()]
        return self.saved(kind, rows[0], "created") if rows else None

    def latest(self, kind: Kind, since: float, names: Iterable[str]) -> Iterator[Candidate]:
        made = {"propertyName": _CREATED, "operator": "GTE", "value": str(int(since * 1000))}
        body: Mapping[str, Any] | None = {
            **_search_body({}),
            "filterGroups": [{"filters": [made]}],
            "properties": [_CREATED],
        }
        ids = list[str]()
        while body:
            answer = self.listed("POST", kind, "search", body=body, lane=SEARCH)
            ids += _ids(answer.items())
            body = self.next_page(answer, body)
        return self._candidates(kind, self._records(kind, ids, names))

    def candidates(
        self, kind: Linked, contact_id: str, names: Iterable[str], others: Collection[str]
    ) -> Iterator[Candidate]:
        return self._candidates(kind, self._linked("contacts", contact_id, kind, names, others))

    def _candidates(self, kind: Kind, rows: Iterable[Row]) -> Iterator[Candidate]:
        for row in rows:
            saved = self.saved(kind, row, "created")
            yield Candidate(saved, parse_time(row.get("createdAt")), _values(row))

    def _linked(
        self,
        kind: Kind,
        record_id: str,
        to: str,
        names: Iterable[str],
        others: Collection[str] = (),
    ) -> Iterator[Row]:
        """Yield the records, notes or tasks that are linked to a record, except `others`."""
        self.check_id(record_id)
        ids: dict[str, None] = {}
        params: Mapping[str, Any] | None = {"limit": "500"}
        while params:
            # Unlike searches, links do not lag.
            answer = self.call("GET", kind, record_id, "associations", to, params=params)
            ids |= {answer.id({"id": link.get("toObjectId")}): None for link in answer.items()}
            params = self.next_page(answer, params)
        yield from self._records(to, [one for one in ids if one not in others], names)

    # Definitions.

    def load_fields(
        self, kind: Kind, *, level: str = _LEVELS[0], names: Sequence[str] = ()
    ) -> Iterator[Field]:
        """Read the list of a level of sensitivity, or only the definitions of `names`."""
        if names:
            inputs = [{"name": name} for name in names]
            body = {"archived": False, "dataSensitivity": level}
            answers = self.read_batches("properties", kind, body=body, inputs=inputs)
        else:
            params = None if level == _LEVELS[0] else {"dataSensitivity": level}
            answers = iter([self.listed("GET", "properties", kind, params=params)])
        for item in (item for answer in answers for item in answer.items()):
            if item.get("archived"):
                continue
            options = sorted(objects_in(item.get("options")), key=_order)
            field = self.field(
                kind,
                text_of(item.get("name")),
                text_of(item.get("label")),
                _type(item),
                _choices(options, "value"),
                read_only=_is_read_only(item),
                sensitive=level != _LEVELS[0],
            )
            yield from [field] if field else []

    def load_pipelines(self, kind: Linked) -> list[hub.Pipeline]:
        return [
            hub.Pipeline(one["id"], text_of(one.get("label")), _choices(stages, "id"))
            for one in _ordered(self.rows("pipelines", kind))
            for stages in [_ordered(objects_in(one.get("stages")))]
        ]

    def load_owners(self) -> list[hub.Owner]:
        return [
            hub.Owner(row["id"], text_of(row.get("email")), " ".join(filter(None, names)))
            for row in self.rows("owners", params={"limit": "500"})
            for names in [[text_of(row.get(name)) for name in ("firstName", "lastName")]]
        ]

    def check(self) -> None:
        """Call every endpoint that needs a right; LacksRight has all missing rights."""
        first = {"limit": "1"}
        probes: list[tuple[str, Callable[[], object]]] = []
        for kind, (reads, writes) in SCOPES.items():
            probes.append((reads, partial(self.listed, "GET", kind, params=first)))
            probes.append((writes, partial(self._write_nothing, kind)))
        probes.append((OWNERS_SCOPE, partial(self.listed, "GET", "owners", params=first)))
        if missing := ", ".join(self.lacking(probes)):
            message = f"The access token lacks rights in HubSpot; give it the scopes {missing}."
            raise hub.LacksRight(message)

    def _write_nothing(self, kind: Kind) -> None:
        # HubSpot checks rights first, and an empty batch writes nothing.
        with suppress(Rejected):
            self.listed("POST", kind, "batch", "update", body={"inputs": []})


def _association(type_id: int, record_id: str) -> dict[str, Any]:
    type_ = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": type_id}
    return {"to": {"id": record_id}, "types": [type_]}


def _values(row: Row) -> Mapping[str, Any]:
    values = row.get("properties")
    if not isinstance(values, dict):
        raise hub.Unavailable("HubSpot answered without the properties of a record.")
    return values


def _ms(value: Any, *names: str) -> int:
    return round(parse_time(value_at(value, *names)) * 1000)


def _ids(items: Iterable[Mapping[str, Any]]) -> list[str]:
    return [text_of(item.get("id")) for item in items]


def _merged_ids(row: Row) -> list[str]:
    ids = text_of(_values(row).get(_MERGED)).split(";")
    return [one for one in ids if one not in ("", row["id"])]


def _search_body(values_by_name: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    groups = [
        {"filters": [{"propertyName": name, "operator": "IN", "values": values}]}
        for name, values in values_by_name.items()
    ]
    return {
        "filterGroups": groups,
        "properties": list(PHONES),
        "sorts": [_CREATED],
        "limit": 200,
        "after": "0",
    }


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


def _may_succeed_alone(error: hub.AdapterError, sent: Collection[str]) -> bool:
    """Sent alone, a conflict names the contact with the email, and refused values are refitted."""
    if isinstance(error, Rejected):
        return bool({problem.name for problem in error.problems} & ({*sent} - _PLAIN))
    return isinstance(error, hub.Conflict | hub.NotFound)


def _out_of_reach(kind: Kind, level: str) -> str:
    scope = f"crm.objects.{kind}.{level}"
    both = f"{scope}.read.v2 and {scope}.write.v2"
    needed = f"tickets.{level}.v2" if kind == "tickets" else both
    return f"HubSpot keeps this as sensitive data; the access token needs {needed}, or leave it out"


def _is_read_only(definition: Mapping[str, Any]) -> bool:
    fixed = value_at(definition, "modificationMetadata", "readOnlyValue") is True
    return fixed or definition.get("calculated") is True


def _type(definition: Mapping[str, Any]) -> str:
    own = text_of(definition.get("type")).replace("phone_number", "phone")
    own = own if own in CODECS else "string"
    hints = (f"{own} {text_of(definition.get(name))}" for name in _HINT_NAMES)
    return next((_HINTS[hint] for hint in hints if hint in _HINTS), own)


def _choices(items: Iterable[Mapping[str, Any]], value: str) -> tuple[hub.Choice, ...]:
    return tuple(hub.Choice(text_of(one.get(value)), text_of(one.get("label"))) for one in items)


def _ordered(items: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    live = (item for item in items if not item.get("archived"))
    return sorted(live, key=lambda item: (*_order(item), text_of(item.get("label")).casefold()))


def _order(item: Mapping[str, Any]) -> tuple[bool, int]:
    # HubSpot shows items with -1 last.
    order = item.get("displayOrder") or 0
    return order < 0, order
