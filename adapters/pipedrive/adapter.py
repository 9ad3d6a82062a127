"""The adapter for Pipedrive's API v2, and v1 for users, notes and merges.

Only a search index finds people by email or phone. It lags and costs 20 tokens, so a known person
is read by id (1 token), and after a search without result the latest changes are listed.
"""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile
from typing import Any, ClassVar

from adapters.pipedrive.connecting import GUIDES, SCOPES, SETTINGS
from adapters.pipedrive.failures import MissingScope, failure, token_failure
from crmhub import adapter as hub
from crmhub.adapter import Kind, Linked, NotFound, Problem, PropertyType, Rejected, Saved, Written
from crmhub.adapter.answers import objects_in, parse_time, text_of, value_at
from crmhub.adapter.creates import Create
from crmhub.adapter.fields import Field
from crmhub.adapter.http import GENERAL, QUOTA, Answer, Limit
from crmhub.adapter.phones import nationals
from crmhub.adapter.remembered import HOUR, Remembered
from crmhub.adapter.rest_adapter import RestAdapter
from crmhub.adapter.several import Several
from crmhub.adapter.table_adapter import TableDefinitions
from crmhub.adapter.tables import CODECS, MONEY, NUMBER, Codec, Records, Row, Write
from crmhub.adapter.types import from_html, to_html
from crmhub.adapter.walks import Walk
from crmhub.adapter.webhooks import body_of, check_proof, webhook_secret

_SEARCH, _ME, _NOTES = ("persons", "search"), ("users", "me"), ("notes",)
# How many tokens each call costs, as Pipedrive's API files say.
_COSTS = {_SEARCH: 20, _ME: 2, _NOTES: 20, ("users",): 20, ("stages",): 5, ("pipelines",): 5}
_READ, _DELETE, _WRITE, _WRITE_NOTE, _LIST, _MERGE = 1, 3, 5, 10, 10, 40
# Calls in a rolling window until an answer names the limit: of a token, of an app, and searches.
_WINDOW_S, _CALLS, _CALLS_OF_APP, _SEARCHES = 2.0, 20, 80, 10
_CALLS_IN, _TOKENS_IN = ("x-ratelimit-limit", ""), ("x-daily-ratelimit-token-limit", "")
# Pipedrive takes 500; people with many custom fields must fit into the largest answer.
_PAGE, _MOST_IDS, _LONGEST_LINE = "200", 100, 255
# For how many seconds the search may hide a change, and for how many it is not repeated.
_SEARCH_LAG_S, _SEARCHED_S, _MOST_SEARCHED = 120.0, 60.0, 500
# For how many seconds a list may hide a change: unknown, so as long as the search.
_LIST_LAG_S = 120.0
_ALL_STATES = "open,won,lost,deleted"
# Pipedrive's times are whole seconds, and its clock is known only roughly.
_CLOCK_S = 2.0
_CHANNEL = "channel_id"
# Types of custom fields that can hold the mark, and the type of fields that can only be read.
_TEXTS, _READ_ONLY = ("varchar", "text"), ""
# Pipedrive's own fields that can be written; its other ones can only be read.
_OF_ALL: dict[str, PropertyType] = {"owner_id": "enumeration", "label_ids": "multi_enumeration"}
_OF_ALL |= dict.fromkeys(("org_id", "visible_to"), "number")
_OF_DEALS: dict[str, PropertyType] = dict.fromkeys(("title", "currency", _CHANNEL), "string")
_OF_DEALS |= dict.fromkeys(("pipeline_id", "stage_id", "status"), "enumeration")
_OF_DEALS |= {"value": "currency", "expected_close_date": "date", **_OF_ALL}
_OF_PERSONS: dict[str, PropertyType] = {"name": "string", "email": "email", **_OF_ALL}
_OF_PERSONS |= dict.fromkeys(("phone", "mobilephone"), "phone")
_OF_COMPANIES: dict[str, PropertyType] = dict.fromkeys(("name", "address"), "string")
_OF_COMPANIES |= {"website": "url", "linkedin": "url", "industry": "enumeration", **_OF_ALL}
_OF_COMPANIES |= dict.fromkeys(("annual_revenue", "employee_count"), "number")
_COMPANY = {"numberofemployees": "employee_count", "annualrevenue": "annual_revenue"}
_FIELDS: Mapping[Kind, str] = {"contacts": "personFields", "companies": "organizationFields"}
_PAGES: Mapping[Kind, str] = {"contacts": "person", "companies": "organization"}
# The kinds of records by Pipedrive's names in webhooks, and the user of these.
_ENTITIES: Mapping[str, tuple[Kind, ...]] = {
    "person": ("contacts",),
    "organization": ("companies",),
    "deal": ("deals", "tickets"),
}
_HOOK_USER = "crmhub"
# What a task takes, and for how many seconds an equal one is taken for the same.
_TASK, _SAME_TASK_S = ("subject", "notes", "due", "owner"), 86_400.0


def _records(
    path: str,
    names: Mapping[str, str],
    types: Mapping[str, PropertyType],
    links: Mapping[Kind, str] = {},
) -> Records:
    names = {"hubspot_owner_id": "owner_id", **names}
    times = ("update_time", "add_time")
    return Records(path, names, types, (), links.get("contacts", ""), links, *times)


def _deals(title: str, pipeline: str, stage: str) -> Records:
    names = {title: "title", pipeline: "pipeline_id", stage: "stage_id", "amount": "value"}
    names |= {"closedate": "expected_close_date"}
    return _records("deals", names, _OF_DEALS, {"contacts": "person_id", "companies": "org_id"})


def _option(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


_OPTION = Codec("enumeration", _option)
_OPTIONS = Codec("multi_enumeration", lambda text: [_option(one) for one in text.split(";")])


class _Definitions(TableDefinitions):
    stale_s = 60.0
    hidden = (MissingScope,)

    def pipelines(self, kind: Linked, *, newer_than: float = HOUR) -> list[hub.Pipeline]:
        """One list has the pipelines of both kinds; raises BadConfig for an unknown setting."""
        support = self._context.settings["support_pipeline"].casefold()
        pipelines = super().pipelines("deals", newer_than=newer_than)
        named = [one for one in pipelines if support in (one.id, one.label.casefold())]
        if kind == "deals":
            return [one for one in pipelines if one not in named]
        if len(named) == 1:
            return named
        reason = "Pipedrive has not exactly one pipeline with this name or id"
        raise hub.BadConfig(problems=[Problem("support_pipeline", reason)])


class PipedriveAdapter(RestAdapter):
    """Tickets become deals in the pipeline that a setting names; automations cannot be read."""

    title = "Pipedrive"
    record_pages = True
    linked_kinds: ClassVar[Mapping[Linked, str]] = {"deals": "", "tickets": "support_pipeline"}
    whole_name = "name"
    email_names = ("email", "emails")
    phone_names = ("phone", "phones")
    remembered_first = True
    reads_first = True
    largest_id = 10**16 - 1
    # How much HTML a note takes is not documented.
    longest_note = 20_000
    untold_deletions = frozenset(("contacts", "companies"))
    settings = SETTINGS
    guides = GUIDES
    token_name = "api_token"
    token_keeps = ("api_domain", "scope")
    correlation_header = "x-correlation-id"
    prefix = ("api",)
    list_in = record_in = "data"
    definitions_class = _Definitions
    failure = staticmethod(failure)
    token_failure = staticmethod(token_failure)
    kinds: ClassVar = {
        "contacts": _records("persons", {}, _OF_PERSONS, {"companies": "org_id"}),
        "companies": _records("organizations", _COMPANY, _OF_COMPANIES),
        "deals": _deals("dealname", "pipeline", "dealstage"),
        "tickets": _deals("subject", "hs_pipeline", "hs_pipeline_stage"),
    }
    several: ClassVar = {
        "email": Several("emails", "email"),
        "phone": Several("phones", "phone"),
        "mobilephone": Several("phones", "phone", labelled="mobile"),
    }
    # Pipedrive's types are those of custom fields; its own fields have the hub's (`kinds`).
    codecs: ClassVar = {
        **CODECS,
        **dict.fromkeys(("enumeration", "enum"), _OPTION),
        **dict.fromkeys(("multi_enumeration", "set"), _OPTIONS),
        **dict.fromkeys(("varchar", "varchar_auto", "address", _READ_ONLY), CODECS["string"]),
        **dict.fromkeys(("double", "user", "org", "people"), NUMBER),
        "monetary": MONEY,
    }

    def __init__(self, context: hub.Context) -> None:
        calls = _CALLS if context.credentials["api_token"] else _CALLS_OF_APP
        tokens = int(context.settings["daily_tokens"]) or 1
        self.limits = (
            Limit(calls, _WINDOW_S, headers=_CALLS_IN),
            Limit(_SEARCHES, _WINDOW_S, "search", headers=_CALLS_IN),
            Limit(tokens, 86_400.0, QUOTA, headers=_TOKENS_IN),
        )
        super().__init__(context)
        self._currency = Remembered(self._load_currency, context, name="currency")
        # When a search by an email began that found nobody, in seconds of the monotonic clock.
        self._searched: dict[str, float] = {}

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        needs_address = credentials["api_token"] and not settings["base_url"]
        reason = "Enter your company's address, https://COMPANY.pipedrive.com."
        missing = Problem("base_url", reason) if needs_address else ""
        return super().clash(settings, credentials) or missing

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> hub.OAuth:
        """Pipedrive takes the scopes from the app, and ignores those of the request."""
        url = f"{settings['oauth_url'].rstrip('/')}/oauth"
        return hub.OAuth(
            authorize_url=f"{url}/authorize",
            token_url=f"{url}/token",
            scopes=SCOPES,
            client_auth="basic",
            account_field="api_domain",
            replaces=("api_token",),
        )

    def base_url(self) -> str:
        return (self.grant.kept("api_domain") or self.context.settings["base_url"]).rstrip("/")

    def authorize(self) -> Mapping[str, str]:
        has_token = self.context.credentials["api_token"]
        return {"x-api-token": self.grant.token()} if has_token else super().authorize()

    def call(self, method: str, *path: str, **options: Any) -> Answer:
        """Add the version of the path, what the call costs in tokens, and the size of a page."""
        if params := options.get("params"):
            options["params"] = {"limit": _PAGE, **params}
        cost = _COSTS.get(path) or (_LIST if len(path) == 1 else _READ)
        writing = _WRITE_NOTE if path == _NOTES else _WRITE
        options["cost"] = {"GET": cost, "DELETE": _DELETE, "PUT": _MERGE}.get(method, writing)
        options["lane"] = "search" if path == _SEARCH else GENERAL
        version = "v1" if path[0] in ("users", "notes") or path[-1] == "merge" else "v2"
        return super().call(method, version, *path, **options)

    def listed(self, method: str, *path: str, **options: Any) -> Answer:
        answer = super().listed(method, *path, **options)
        items = value_at(answer.body, "data", "items")
        if not isinstance(items, list):
            return answer
        # A search has its records one level deeper, twice.
        found = [value_at(item, "item") for item in items]
        return replace(answer, body={**answer.object(), "data": found})

    def next_page(self, answer: Answer, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        cursor = text_of(value_at(answer.body, "additional_data", "next_cursor"))
        return {**params, "cursor": cursor} if cursor not in ("", params.get("cursor")) else None

    def rows(self, *path: str, **options: Any) -> Iterator[Row]:
        return (row for row in super().rows(*path, **options) if not row.get("is_deleted"))

    def row(self, answer: Answer, item: Mapping[str, Any] | None = None) -> Row:
        row = super().row(answer, item)
        custom = row.get("custom_fields")
        return {**custom, **row} if isinstance(custom, dict) else row

    def page(self, kind: Kind, record_id: str) -> str:
        return f"{self.base_url()}/{_PAGES.get(kind, 'deal')}/{record_id}"

    def _moment(self, seconds: float) -> str:
        return _timestamp(seconds + self.http.clock_ahead)

    def find(self, by: str, values: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        for value in values:
            started = time.monotonic()
            is_known = started - self._searched.pop(value, -_SEARCHED_S) < _SEARCHED_S
            found = [] if is_known else self._search(by, value)
            changed = {"updated_since": self._moment(time.time() - _SEARCH_LAG_S)}
            found = found or self._holders(by, value, self.rows("persons", params=changed))
            if by == "email" and not found and not is_known:
                latest = [*self._searched.items()][-_MOST_SEARCHED:]
                self._searched = {**dict(latest), value: started}
            yield from found

    def _search(self, by: str, value: str) -> list[Row]:
        # How the search compares phones is not documented: by a part, then by the whole text.
        parts = [(part, "false") for part in nationals(value)[:1] if by == "phone"]
        for term, exact in (*parts, (value, "true")):
            params = {"term": term, "fields": by, "exact_match": exact}
            hits = self._holders(by, value, self.rows(*_SEARCH, params=params))
            people = self.read_several("contacts", [str(hit["id"]) for hit in hits], ())
            if found := self._holders(by, value, people):
                return found
        return []

    def read_several(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        """A single record costs 1 token, a list 10."""
        path, rows = self.kinds[kind].path, list[Row]()
        if len(ids) == 1:
            # A 404 may blame the address: then the list decides.
            with suppress(NotFound):
                rows = [self.row(self.call("GET", path, ids[0]))]
        for start in range(0, 0 if rows else len(ids), _MOST_IDS):
            params = {"ids": ",".join(ids[start : start + _MOST_IDS])}
            rows += self.rows(path, params=params)
        return (row for row in rows if self._is_there(kind, row))

    def _is_there(self, kind: Kind, row: Row) -> bool:
        """Tickets are the deals of one pipeline; people may move a deal there."""
        if row.get("is_deleted") or row.get("status") == "deleted":
            return False
        if kind not in ("deals", "tickets") or not self.context.settings["support_pipeline"]:
            return True
        support = [one.id for one in self.definitions.pipelines("tickets")]
        return (text_of(row.get("pipeline_id")) in support) == (kind == "tickets")

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> hub.ChangedPage:
        """The cursor names the last record and the sorting: by id, no change shifts a page."""
        self.check_kind(kind)
        walk, asked = Walk.of(since), time.time()
        params = {"sort_by": "id", **({"cursor": walk.cursor} if walk.cursor else {})}
        if walk.since:
            params["updated_since"] = _timestamp(walk.since - _LIST_LAG_S)
            params |= {"status": _ALL_STATES} if kind in ("deals", "tickets") else {}
        answer = self.listed("GET", self.kinds[kind].path, params=params)
        rows = [self.row(answer, item) for item in answer.items(self.list_in)]
        here = [row for row in rows if self._is_there(kind, row)]
        left = {row["id"] for row in here}
        gone = [row["id"] for row in rows if row["id"] not in left] if walk.since else []
        following = self.next_page(answer, params) or {}
        return walk.page(
            [self.to_record(kind, row, names) for row in here],
            following.get("cursor", ""),
            asked=asked + self.http.clock_ahead,
            deleted=gone,
        )

    def events(self, request: hub.WebhookRequest) -> list[hub.Event]:
        """Pipedrive signs nothing; a webhook has a user and a password (HTTP Basic)."""
        password = webhook_secret(self.context, "webhook_password")
        proof = base64.b64encode(f"{_HOOK_USER}:{password}".encode()).decode()
        check_proof(request.headers.get("authorization", ""), f"Basic {proof}")
        meta = value_at(body_of(request), "meta")
        ids = [text_of(value_at(meta, name)) for name in ("entity_id", "merged_to_id")]
        kinds = _ENTITIES.get(text_of(value_at(meta, "entity")), ())
        has_tickets = self.context.settings["support_pipeline"]
        return [
            hub.Event(kind, one)
            for kind in kinds
            for one in ids
            if self.may_be_id(one) and (kind != "tickets" or has_tickets)
        ]

    def _holders(self, by: str, value: str, people: Iterator[Row]) -> list[Row]:
        return [person for person in people if self.several[by].has(person, value)]

    def read(self, contact_id: str, names: Sequence[str]) -> Row:
        person = super().read(contact_id, names)
        if person.get("is_deleted"):
            raise NotFound("This person was deleted in Pipedrive")
        return person

    def age(self, row: Row) -> tuple[str, int]:
        return str(row.get("add_time")), int(row["id"])

    def text(self, field: Field, row: Row) -> str:
        stored = row.get(field.theirs)
        if isinstance(stored, dict):
            row = {**row, field.theirs: stored.get("value")}
        text = super().text(field, row)
        return "" if field.theirs == "name" and text == self._stand_in(row) else text

    def _stand_in(self, row: Row) -> str:
        """Pipedrive requires a name: use the email, or else a phone; "" without both."""
        return next(filter(None, (one.text(row) for one in self.several.values())), "")

    def json(self, field: Field, text: str, write: Write) -> Any:
        value = super().json(field, text, write)
        is_address = "address" in (field.their_type, field.theirs)
        if not text or not (is_address or field.their_type == "monetary"):
            return value
        if is_address:
            return {"value": value}
        stored = write.contact.get(field.theirs) if write.record_id else None
        return {"value": value, "currency": value_at(stored, "currency") or self._currency.get()}

    def _load_currency(self) -> str:
        return text_of(self.row(self.call("GET", *_ME)).get("default_currency"))

    def before_write(self, write: Write) -> None:
        values, person = write.values, write.contact
        has_stand_in = person.get("name", "") == self._stand_in(person)
        if write.kind == "contacts" and ("name" in values or has_stand_in):
            values["name"] = values.get("name") or self._stand_in({**person, **values})
            if not values["name"]:
                raise Rejected([Problem("name", "a person needs a name, an email or a phone")])
        if write.mark and (mark := self._mark_field(write.kind)):
            values.setdefault(mark.theirs, write.mark)
        fields, own = self.definitions.fields(write.kind), self.kinds[write.kind].types
        custom = {n: values.pop(n) for n in [*values] if n in fields and n not in own}
        values |= {"custom_fields": custom} if custom else {}
        super().before_write(write)

    def delete(self, kind: Kind, record_id: str) -> None:
        # Whether Pipedrive deletes a deleted record again is not documented.
        self.existing(kind, record_id)
        self.row(self.call("DELETE", self.kinds[kind].path, record_id))

    def merge_into(self, kind: Kind, kept_id: str, other_id: str) -> Row:
        body = {"merge_with_id": int(kept_id)}
        self.row(self.call("PUT", self.kinds[kind].path, other_id, "merge", body=body))
        return {"id": kept_id}

    # Notes and tasks.

    def add_note(
        self, kind: Written, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        """Of one record, a note with the same text and the same second is the same note."""
        self.check_kind(kind)
        self.check_id(record_id)
        self.existing(kind, record_id)
        at = _timestamp(at_ms / 1000).replace("T", " ").rstrip("Z")
        link = "person_id" if kind == "contacts" else "deal_id"
        params = {link: record_id, "sort": "id DESC"}
        for note in self.listed("GET", *_NOTES, params=params).items("data") if mark else ():
            if note.get("add_time") == at and from_html(text_of(note.get("content"))) == text:
                return Saved(text_of(note.get("id")), "created")
        body = {link: int(record_id), "content": to_html(text), "add_time": at}
        return Saved(self.row(self.call("POST", *_NOTES, body=body))["id"], "created")

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """A task is an activity; an equal one of the last day that is open is the same task."""
        self.check_id(contact_id)
        given = {name: text for name, text in properties.items() if text}
        owner, due = given.get("owner", ""), given.get("due", "")
        problems = [Problem(n, "Pipedrive's tasks do not take it") for n in given if n not in _TASK]
        if owner and not self.may_be_id(owner):
            problems.append(Problem("owner", "is no id of a user"))
        if due and not parse_time(due):
            problems.append(Problem("due", "is no time"))
        if problems:
            raise Rejected(problems)
        self.existing("contacts", contact_id)
        values: dict[str, Any] = {"type": "task", "subject": given.get("subject", "")}
        values |= {"note": to_html(given["notes"])} if "notes" in given else {}
        values |= {"owner_id": int(owner)} if owner else {}
        if due:
            day, _, moment = _timestamp(parse_time(due)).partition("T")
            values |= {"due_date": day, "due_time": moment[:5]}
        since = self._moment(time.time() - _SAME_TASK_S)
        params = {"person_id": contact_id, "done": "false", "updated_since": since}
        for task in self.rows("activities", params=params) if mark else ():
            compared = {"note", "due_date", "due_time", *values}
            if all(_comparable(n, task.get(n)) == _comparable(n, values.get(n)) for n in compared):
                return Saved(str(task["id"]), "created")
        values["participants"] = [{"person_id": int(contact_id), "primary": True}]
        return Saved(self.row(self.call("POST", "activities", body=values))["id"], "created")

    def _mark_field(self, kind: Kind, *, newer_than: float = HOUR) -> Field | None:
        """Return the text field of the setting, or a deal's source channel ID, or None."""
        fields = self.definitions.fields(kind, newer_than=newer_than)
        named = self.context.settings["mark_field"].casefold()
        texts = (field for field in fields.values() if field.their_type in _TEXTS)
        marks = (one for one in texts if named in (one.theirs.casefold(), one.label.casefold()))
        return next(marks, fields.get(_CHANNEL))

    def find_create(self, create: Create) -> Saved | None:
        """Return the record with the mark, or the oldest one without a mark and with equal values.

        An automation may have changed pipeline and stage. Of people, only email or phone counts, if
        they have one.
        """
        kind, sent, params = create.kind, create.sent, {"sort_by": "add_time"}
        fields, mark = self.definitions.fields(kind), self._mark_field(kind)
        since = self._moment(create.since_ms / 1000 - _CLOCK_S)
        by = "email" if sent.get("email") else "phone"
        of_person = sent.get(by, "") if kind == "contacts" else ""
        expected = {} if of_person else self.fitting.without_place(kind, sent)
        if create.contact_id:
            self.check_id(create.contact_id)
            params |= {"person_id": create.contact_id}
        else:
            params |= {"updated_since": since}
        alike: Row | None = None
        rows = self.rows(self.kinds[kind].path, params={**params, "sort_direction": "desc"})
        for row in takewhile(lambda row: str(row.get("add_time")) >= since, rows):
            own = self.text(mark, row) if mark and not sent.get(mark.name) else ""
            if own and own == create.mark:
                return self.saved(kind, row, "created")
            if of_person:
                is_alike = self.several[by].has(row, of_person)
            else:
                is_alike = all(self.text(fields[n], row) == v for n, v in expected.items() if v)
            if is_alike and not own and str(row["id"]) not in create.others:
                alike = row
        return self.saved(kind, alike, "created") if alike else None

    def load_fields(self, kind: Kind) -> Iterator[Field | None]:
        path, own = _FIELDS.get(kind, "dealFields"), self.kinds[kind].types
        items = self.items(path, params={"limit": "500"})
        listed = {text_of(item.get("field_code")): item for _, item in items}
        for theirs in dict.fromkeys((*own, *listed)):
            item = listed.get(theirs, {})
            custom = text_of(item.get("field_type")) if item.get("is_custom_field") else ""
            their_type = own.get(theirs) or (custom if custom in self.codecs else _READ_ONLY)
            codec = self.codecs[their_type]
            options = objects_in(item.get("options")) if codec in (_OPTION, _OPTIONS) else ()
            # A record shows some further fields of Pipedrive's own only on demand.
            if theirs not in own and item.get("is_optional_response_field"):
                continue
            # Not every company has all fields of organizations.
            if kind == "companies" and not item:
                continue
            yield self.field(
                kind,
                theirs,
                text_of(item.get("field_name")),
                their_type,
                [hub.Choice(text_of(one.get("id")), text_of(one.get("label"))) for one in options],
                read_only=their_type == _READ_ONLY,
                required=theirs == "title" or (kind == "companies" and theirs == "name"),
                longest=_LONGEST_LINE if codec.type == "string" else 0,
            )

    def describe(self, kind: Kind) -> list[hub.Described]:
        """The users are no options of the owner: to list them costs 20 tokens (`owners`)."""
        self.check_kind(kind)
        return [
            field if field.name == self.owner_name else self.fitting.with_options(kind, field)
            for field in self.definitions.described(kind)
        ]

    def load_pipelines(self, kind: Linked) -> list[hub.Pipeline]:
        stages: dict[str, list[hub.Choice]] = {}
        for stage in self.rows("stages", params={"sort_by": "order_nr"}):
            choice = hub.Choice(stage["id"], str(stage.get("name")))
            stages.setdefault(str(stage.get("pipeline_id")), []).append(choice)
        # The list of pipelines cannot be sorted by their order.
        pipelines = sorted(
            (str(one.get("order_nr")).zfill(9), one["id"], str(one.get("name")))
            for one in self.rows("pipelines", params={"limit": _PAGE})
        )
        return [hub.Pipeline(id, name, tuple(stages.get(id, ()))) for _, id, name in pipelines]

    def load_owners(self) -> list[hub.Owner]:
        return [
            hub.Owner(user["id"], text_of(user.get("email")), text_of(user.get("name")))
            for user in self.rows("users")
            if user.get("active_flag", True)
        ]

    def check(self) -> None:
        """Raises LacksRight with the missing scopes, and BadConfig with all wrong settings."""
        self.row(self.call("GET", *_ME))
        granted = re.findall("[^ ,]+", self.grant.kept("scope"))
        if missing := [scope for scope in SCOPES if granted and scope not in granted]:
            needed = ", ".join(missing)
            raise hub.LacksRight(f"The app lacks scopes in Pipedrive; give it {needed}.")
        problems = list[Problem]()
        of_kinds: Mapping[Written, str] = {"contacts": "people", "deals": "deals"}
        for kind, of in of_kinds.items():
            mark = self._mark_field(kind, newer_than=0.0)
            if self.context.settings["mark_field"] and not (mark and mark.their_type in _TEXTS):
                reason = f"{of} have no custom field of the type Text with this name or API key"
                problems.append(Problem("mark_field", reason))
        self.definitions.pipelines("deals", newer_than=0.0)
        try:
            if self.context.settings["support_pipeline"]:
                self.definitions.pipelines("tickets")
        except hub.BadConfig as exc:
            problems += exc.problems
        # Last, since definitions are taken from the cache while Pipedrive is unavailable.
        next(self.rows("persons", params={"limit": "1"}), None)
        if problems:
            raise hub.BadConfig(problems=problems)


def _timestamp(seconds: float) -> str:
    """Return a time as Pipedrive writes it, in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def _comparable(name: str, value: Any) -> Any:
    """Return a value of a task in the form of its text, and a time without its seconds."""
    if name == "note":
        return from_html(text_of(value))
    return text_of(value)[:5] if name == "due_time" else value
