"""The adapter for Zoho CRM, API v8: contacts, deals and cases, which are the hub's tickets.

Records are looked up with COQL, Zoho's query language, which shows a write at once. Zoho's search
endpoint is not used, since it lags behind writes and matches parts of values. Zoho ignores unknown
and wrongly written names silently, so a name counts only if it is defined.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from typing import Any, ClassVar, cast

from adapters.zoho import connecting, failures, webhooks
from crmhub import adapter as hub
from crmhub.adapter import AdapterError, Conflict, Kind, Linked, Problem, Rejected, Saved, Written
from crmhub.adapter.answers import Answer, objects_in, parse_time, text_of, value_at
from crmhub.adapter.batches import Action, Results
from crmhub.adapter.coercion import Misfit, coerced
from crmhub.adapter.creates import Candidate
from crmhub.adapter.fields import Field
from crmhub.adapter.http import QUOTA, Limit
from crmhub.adapter.marked import MarkedAdapter
from crmhub.adapter.phones import notations
from crmhub.adapter.places import PLACES
from crmhub.adapter.remembered import HOUR
from crmhub.adapter.table_adapter import TableDefinitions
from crmhub.adapter.tables import CODECS, Codec, Records, Row, Write
from crmhub.adapter.types import to_text
from crmhub.adapter.walks import Walk
from crmhub.adapter.webhooks import webhook_secret

_CONTACT = {"email": "Email", "phone": "Phone", "mobilephone": "Mobile", "jobtitle": "Title"}
_CONTACT |= {"firstname": "First_Name", "lastname": "Last_Name", "hubspot_owner_id": "Owner"}
_DEAL = {"dealname": "Deal_Name", "amount": "Amount", "closedate": "Closing_Date"}
_DEAL |= {"pipeline": "Pipeline", "dealstage": "Stage", "description": "Description"}
_DEAL |= {"hubspot_owner_id": "Owner"}
_TICKET = {"subject": "Subject", "content": "Description", "hs_pipeline_stage": "Status"}
_TICKET |= {"hs_ticket_priority": "Priority", "hubspot_owner_id": "Owner"}
_COMPANY = {"name": "Account_Name", "phone": "Phone", "hubspot_owner_id": "Owner"}
_COMPANY |= {"website": "Website", "industry": "Industry", "annualrevenue": "Annual_Revenue"}
_COMPANY |= {"numberofemployees": "Employees", "description": "Description"}
_IN_DEALS: dict[Kind, str] = {"contacts": "Contact_Name", "companies": "Account_Name"}
_USERS = ("ownerlookup", "userlookup")
_LINKS = ("lookup", *_USERS)
_OPTIONS = ("picklist", "multiselectpicklist")
_NOTHING = "-None-"
# Zoho requires a last name. This invisible character (WORD JOINER) ends one that nobody has given.
_FILLED = "\u2060"
_CLOSES_IN = timedelta(days=30)
# What is done with a record, under Zoho's names.
_CREATE, _UPDATE = "api_create", "api_update"
# COQL takes 50 values in a list and 50 columns, of which one is the id; 200 records are one credit.
_VALUES, _COLUMNS, _PAGE = 50, 49, 200
# Of all calls, only so many may be COQL queries or write more than 10 records at the same time.
_HEAVY_AT_ONCE, _ROWS_PER_CREDIT = 10, 10
# COQL is current. How late the list of deleted records is, is not documented.
_LAG_S = 120.0
_TIMES = ("Modified_Time", "Created_Time")
_TASK = {"subject": "Subject", "notes": "Description", "due": "Due_Date", "owner": "Owner"}
_TASK |= {"priority": "Priority"}
_PRIORITIES = {"LOW": "Low", "MEDIUM": "Normal", "HIGH": "High"}
# For how long an equal task is taken for the same.
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class ZohoField(Field):
    """`refuses`: `_CREATE`, `_UPDATE` or both. `in_any_case`: unique, also in other capitals.
    `is_encrypted`: COQL finds no record by it. `leads_to`: the module of the linked records, or "".
    """

    refuses: tuple[str, ...] = ()
    unique: bool = False
    in_any_case: bool = False
    is_encrypted: bool = False
    leads_to: str = ""
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class InLayout(hub.Pipeline):
    layout: str = ""


def _read_link(value: Any) -> str:
    return to_text(value.get("id") if isinstance(value, dict) else value)


def _read_time(value: Any) -> str:
    with suppress(Misfit):
        return coerced(hub.Described("", "", "datetime"), to_text(value))
    return to_text(value)


def _records(path: str, names: Mapping[str, str], links: Mapping[Kind, str]) -> Records:
    changed, created = _TIMES
    return Records(path, names, links=links, changed=changed, created=created)


class ZohoDefinitions(TableDefinitions):
    hidden = (hub.LacksRight,)

    def mark(self, kind: Kind, *, newer_than: float = HOUR) -> tuple[bool, float] | None:
        mark = self.fields(kind, newer_than=newer_than).get(self._context.settings["mark_field"])
        if not isinstance(mark, ZohoField):
            return None
        return mark.unique and not mark.is_encrypted, mark.created


class ZohoAdapter(MarkedAdapter):
    """A ticket is a case; `active_workflow` is missing, since Zoho does not tell workflows."""

    title = "Zoho CRM"
    own_titles: ClassVar[Mapping[Linked, str]] = {"deals": "Deal_Name", "tickets": "Subject"}
    record_pages = True
    longest_note = 65_535
    batch_size = 100
    email_names = ("email", "Secondary_Email")
    owner_name = ""
    search_lag_s = 0.0
    settings = connecting.SETTINGS
    guides = connecting.GUIDES
    id_form = re.compile(r"[1-9][0-9]{0,18}", re.ASCII)
    largest_id = 10**19
    token_name = ""
    token_keeps = ("api_domain",)
    # Zoho gives 10 access tokens per refresh token in 10 minutes.
    token_limit = Limit(10, 600.0, key="tokens")
    list_in = "users"
    list_statuses = (200, 204, 304)
    failure = staticmethod(failures.failure)
    token_failure = staticmethod(failures.token_failure)
    shared_types = (ZohoField, InLayout)
    definitions_class = ZohoDefinitions
    # Fields of other types, such as images and subforms, are left out.
    codecs: ClassVar = {
        **{name: CODECS[name] for name in ("email", "phone", "date", "currency")},
        **dict.fromkeys(("text", "autonumber", "formula"), CODECS["string"]),
        **dict.fromkeys(("integer", "double", "percent"), CODECS["number"]),
        **dict.fromkeys(_LINKS, Codec("string", lambda text: {"id": text}, _read_link)),
        "bigint": Codec("number"),
        "boolean": CODECS["bool"],
        "datetime": Codec("datetime", lambda text: f"{text[:19]}+00:00", _read_time),
        "multiselectpicklist": CODECS["multi_enumeration"],
        "picklist": CODECS["enumeration"],
        "textarea": CODECS["text"],
        "website": CODECS["url"],
    }
    kinds: ClassVar = {
        "contacts": _records("Contacts", _CONTACT, {"companies": "Account_Name"}),
        "deals": _records("Deals", _DEAL, _IN_DEALS),
        "companies": _records("Accounts", _COMPANY, {}),
        "tickets": _records("Cases", _TICKET, _IN_DEALS | {"contacts": "Related_To"}),
    }

    def __init__(self, context: hub.Context) -> None:
        credits, self.at_once = connecting.EDITIONS[context.settings["edition"]]
        self.limits = (Limit(credits, 86_400.0, QUOTA, key="credits"),)
        super().__init__(context)
        self._heavy = self.client(at_once=min(self.at_once, _HEAVY_AT_ONCE))
        self._runs_workflows = context.settings["run_workflows"] == "true"
        # Fields that Zoho was seen to demand.
        self._demanded: set[str] = set()

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> hub.OAuth | None:
        return connecting.oauth(settings)

    def base_url(self) -> str:
        domain = self.grant.kept("api_domain") or connecting.api_url(self.context.settings)
        return f"{domain.rstrip('/')}/crm/v8"

    def authorize(self) -> Mapping[str, str]:
        return {"Authorization": f"Zoho-oauthtoken {self.grant.token()}"}

    def page(self, kind: Kind, record_id: str) -> str:
        # In the addresses of pages, deals have their former name.
        tab = "Potentials" if kind == "deals" else self.kinds[kind].path
        return connecting.page_url(self.context.settings, tab, record_id)

    def takes_email_once(self) -> bool:
        email = self._fields("contacts").get("email")
        return email is not None and email.in_any_case

    # Reading.

    def find(self, by: str, values: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        if by == "email":
            return self._rows("contacts", names, self.email_names, values)
        forms = [form for value in values for form in notations(value)]
        return self._rows("contacts", names, self.phone_names, forms)

    def read(self, contact_id: str, names: Sequence[str]) -> Row:
        answer = self.call("GET", "Contacts", contact_id)
        if answer.status == 204:
            raise hub.NotFound("Zoho has no such record")
        for row in answer.items("data"):
            if answer.id(row) == contact_id:
                return self.row(answer, row)
        raise answer.broken("it is another record")

    def text(self, field: Field, row: Row) -> str:
        text = super().text(field, row)
        is_filled = field.theirs == "Last_Name" and text.endswith(_FILLED)
        return "" if is_filled or text == _NOTHING else text

    def _rows(
        self,
        kind: Kind,
        names: Iterable[str],
        by: Sequence[str],
        values: Iterable[str],
        newer_than: float = HOUR,
    ) -> Iterator[Row]:
        """Yield records with one of `values` in one of at most two fields `by`.

        Unknown fields, and encrypted ones in `by`, are ignored. COQL may compare texts in other
        ways than Python, so compare the values of the records.
        """
        fields = self._fields(kind, newer_than=newer_than)
        columns = sorted({fields[name].theirs for name in names if name in fields} - {"id"})
        known = [fields[name] for name in by if name in fields]
        filters = [field.theirs for field in known if not field.is_encrypted]
        module = self.kinds[kind].path
        # How COQL reads a backslash is unknown.
        texts = list(dict.fromkeys(v.replace("'", "''") for v in values if "\\" not in v))
        starts = range(0, len(texts) if filters else 0, _VALUES)
        found: dict[str, dict[str, Any]] = {}
        try:
            for start, column in product(starts, range(0, len(columns) or 1, _COLUMNS)):
                quoted = "', '".join(texts[start : start + _VALUES])
                where = " or ".join(f"{name} in ('{quoted}')" for name in filters)
                for row in self._query(module, columns[column : column + _COLUMNS], f"({where})"):
                    found.setdefault(row["id"], {}).update(row)
        except Rejected:
            if newer_than < HOUR:
                raise
            # Zoho may have other fields since.
            yield from self._rows(kind, names, by, values, self.definitions.stale_s)
        else:
            yield from found.values()

    def _query(self, module: str, columns: Sequence[str], where: str) -> list[Row]:
        """Return records, oldest first; `where` is a condition of COQL."""
        found: list[Row] = []
        more = True
        while more:
            rows, more = self._query_page(module, columns, where, offset=len(found))
            found += rows
        return found

    def _query_page(
        self, module: str, columns: Sequence[str], where: str, *, offset: int = 0
    ) -> tuple[list[Row], bool]:
        """Return a page of records, and whether more follow."""
        chosen = ", ".join(["id", *columns])
        query = f"select {chosen} from {module} where {where} order by id asc"
        page = f" limit {_PAGE}" + (f" offset {offset}" if offset else "")
        body = {"select_query": query + page}
        answer = self._heavy.send("POST", "coql", body=body, reads=True)
        rows = answer.items("data") if answer.status != 204 else []
        # Without it, a further page would go unread.
        info = answer.mapping(answer.object().get("info")) if rows else {}
        # COQL may leave out what has no value.
        found: list[Row] = [{**dict.fromkeys(columns), **self.row(answer, row)} for row in rows]
        return found, info.get("more_records") is True

    # A copy of the records.

    def links(self, kind: Kind) -> Mapping[Kind, str]:
        """The usual fields, or others that link to the same module."""
        found: dict[Kind, str] = {}
        for to, usual in self.kinds[kind].links.items():
            module, fields = self.kinds[to].path, self._fields(kind).values()
            if names := [field.theirs for field in fields if field.leads_to == module]:
                found[to] = usual if usual in names else names[0]
        return found

    def _columns(self, kind: Kind, names: Iterable[str], newer_than: float) -> list[str]:
        """Return the columns of a record, first those that each record needs."""
        fields = self._fields(kind, newer_than=newer_than)
        asked = (fields[name].theirs for name in names if name in fields)
        needed = dict.fromkeys([*_TIMES, *self.links(kind).values(), *asked])
        return [name for name in needed if name != "id"]

    def read_several(
        self, kind: Kind, ids: Sequence[str], names: Sequence[str], newer_than: float = HOUR
    ) -> Iterator[Row]:
        columns = self._columns(kind, names, newer_than)
        try:
            yield from self._of_ids(kind, ids, columns)
        except Rejected:
            if newer_than < HOUR:
                raise
            # Zoho may have other fields since.
            yield from self.read_several(kind, ids, names, self.definitions.stale_s)

    def _of_ids(self, kind: Kind, ids: Sequence[str], columns: Sequence[str]) -> Iterable[Row]:
        found: dict[str, dict[str, Any]] = {}
        module = self.kinds[kind].path
        chunks = range(0, len(ids), _VALUES), range(0, len(columns), _COLUMNS)
        for start, column in product(*chunks):
            where = f"id in ({', '.join(repr(one) for one in ids[start : start + _VALUES])})"
            for row in self._query(module, columns[column : column + _COLUMNS], where):
                found.setdefault(row["id"], {}).update(row)
        return found.values()

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> hub.ChangedPage:
        """Walk by id, so that no change shifts a page. Zoho tells a merge as a deletion."""
        self.check_kind(kind)
        try:
            return self._changed(kind, Walk.of(since), names, HOUR)
        except Rejected:
            return self._changed(kind, Walk.of(since), names, self.definitions.stale_s)

    def _changed(
        self, kind: Kind, walk: Walk, names: Sequence[str], newer_than: float
    ) -> hub.ChangedPage:
        columns, asked = self._columns(kind, names, newer_than), time.time()
        where, moment = f"id > '{walk.cursor or 0}'", _moment(walk.since - _LAG_S)
        if walk.since:
            where = f"(Modified_Time >= '{moment}' and {where})"
        rows, more = self._query_page(self.kinds[kind].path, columns[:_COLUMNS], where)
        found = {row["id"]: row for row in rows}
        for row in self._of_ids(kind, list(found), columns[_COLUMNS:]):
            found[row["id"]] = {**found[row["id"]], **row}
        deleted: list[str] = []
        if walk.since and not more:
            path, params = self.kinds[kind].path, {"type": "all", "page": "1", "per_page": "200"}
            condition = {"If-Modified-Since": moment}
            items = self.items(path, "deleted", params=params, headers=condition, list_in="data")
            deleted = [answer.id(item) for answer, item in items]
        return walk.page(
            [self.to_record(kind, row, names) for row in found.values()],
            rows[-1]["id"] if more else "",
            asked=asked + self.clock_ahead(),
            deleted=deleted,
        )

    def events(self, request: hub.WebhookRequest) -> list[hub.Event]:
        module, ids = webhooks.ids_in(request, self._webhook_token())
        return [
            hub.Event(kind, one)
            for kind, records in self.kinds.items()
            for one in ids
            if records.path == module and self.may_be_id(one)
        ]

    def watch(self, address: str) -> int:
        modules = []
        for kind, records in self.kinds.items():
            # Not every edition has all modules.
            with suppress(hub.Unsupported):
                self._fields(kind)
                modules.append(records.path)
        return webhooks.watch(self, address, self._webhook_token(), modules)

    def unwatch(self, address: str) -> None:
        webhooks.unwatch(self, address)

    def _webhook_token(self) -> str:
        return webhook_secret(self.context, "webhook_token", "client_secret")

    # Writing.

    def json(self, field: Field, text: str, write: Write) -> Any:
        action, only = (_UPDATE, "created") if write.record_id else (_CREATE, "updated")
        if isinstance(field, ZohoField) and action in field.refuses:
            raise Misfit(f"Zoho takes it only when a record is {only}; leave it out")
        return super().json(field, text, write)

    def before_write(self, write: Write) -> None:
        super().before_write(write)
        kind, values = write.kind, write.values
        lacks_name = not values.get("Last_Name")
        if kind == "contacts" and lacks_name and (not write.record_id or "Last_Name" in values):
            known = values.get("Email") or values.get("Phone") or "-"
            last = "-" if values.get("First_Name") else known[:70]
            values["Last_Name"] = f"{last}{_FILLED}"
        if kind == "contacts" or kind == "companies" or write.record_id:
            return
        pipelines = [one for one in self.pipelines(kind) if isinstance(one, InLayout)]
        layouts = {one.id: one.layout for one in pipelines}
        if len({*layouts.values()}) > 1:
            values["Layout"] = {"id": layouts[write.fit.get(PLACES[kind][0], "")]}
        if write.contact:
            values[self._link(kind).theirs] = {"id": write.contact["id"]}
        write.values = self._stand_ins(kind, self._demanded) | values

    def _stand_ins(self, kind: Kind, names: Collection[str]) -> dict[str, Any]:
        """Return values for mandatory fields that bots lack, and for `names`, seen to be so."""
        fields = self._fields(kind)
        closing, origin = fields.get("Closing_Date"), fields.get("Case_Origin")
        values: dict[str, Any] = {}
        if closing and (closing.required or closing.theirs in names):
            values[closing.theirs] = (datetime.now(UTC) + _CLOSES_IN).date().isoformat()
        if origin and (origin.required or origin.theirs in names):
            options = [option.value for option in origin.options]
            values[origin.theirs] = "Web" if "Web" in options or not options else options[0]
        return values

    def send(self, write: Write) -> Row:
        """Return an earlier attempt's record with this mark; add values that Zoho demands."""
        kind, path = write.kind, [write.record_id] if write.record_id else []
        method, module = "PUT" if path else "POST", self.kinds[write.kind].path
        try:
            [written] = self._write_rows(method, module, [write.values], *path)
        except Conflict as clash:
            if path or not self.mark_name or clash.name != self.mark_name or not clash.existing_id:
                raise
            return {"id": clash.existing_id}
        except Rejected as refused:
            self.raise_for_mark(write, refused)
            names = {problem.name for problem in refused.problems}
            if kind == "contacts" or kind == "companies" or path:
                raise
            if write.contact and self._link(kind).theirs in names:
                raise hub.NotFound("Zoho has no such contact") from None
            more = self._stand_ins(kind, names)
            if more.keys() <= write.values.keys():
                raise
            self._demanded |= names & more.keys()
            write.values = more | write.values
            return self.send(write)
        return {"id": written}

    def set_link(self, kind: Kind, row: Row, name: str, to_id: str) -> None:
        # Zoho ignores a field silently that it does not let the connection write.
        self.write(kind, row["id"], {name: to_id})

    def delete(self, kind: Kind, record_id: str) -> None:
        params = None if self._runs_workflows else {"wf_trigger": "false"}
        answer = self.call("DELETE", self.kinds[kind].path, record_id, params=params)
        details = [answer.mapping(one.get("details")) for one in answer.items("data")]
        if [one.get("id") for one in details] != [record_id]:
            raise answer.broken("it does not say that the record is deleted")

    def _write_rows(
        self, method: str, module: str, rows: Sequence[Mapping[str, Any]], *path: str
    ) -> Sequence[str]:
        """Write up to 100 records; return their ids. Raises Refused if some of several failed."""
        body: dict[str, Any] = {"data": rows}
        if not self._runs_workflows:
            body["trigger"] = []
        http = self._heavy if len(rows) > _ROWS_PER_CREDIT else self.http
        cost = -(-len(rows) // _ROWS_PER_CREDIT)
        try:
            answer = http.send(method, module, *path, body=body, cost=cost)
            details = [answer.mapping(row.get("details")) for row in answer.items("data")]
            if len(details) == len(rows):
                return [answer.id(one) for one in details]
        except failures.Refused as refused:
            if len(refused.outcomes) == len(rows):
                raise
        raise hub.Uncertain("Zoho's answer does not tell what became of each record.")

    def send_batch(
        self, action: Action, items: Mapping[int, hub.ContactWrite], results: Results
    ) -> None:
        """A row that may succeed alone, or gets a better error there, has no result."""
        outcome: hub.Outcome = "updated" if action == "update" else "created"
        method = "PUT" if action == "update" else "POST"
        written: Sequence[str | AdapterError]
        with self.prepared(items, results) as writes:
            rows = [
                one.values | ({"id": one.record_id} if one.record_id else {})
                for one in writes.values()
            ]
            try:
                written = self._write_rows(method, "Contacts", rows) if rows else []
            except failures.Refused as refused:
                written = refused.outcomes
            except AdapterError as exc:
                # Not an error of the contacts that are not in this call.
                written = [exc] * len(rows)
        for index, result in zip(writes, written, strict=True):
            if isinstance(result, str):
                results[index] = self.saved("contacts", {"id": result}, outcome)
            elif not isinstance(result, Conflict | hub.NotFound | Rejected):
                results[index] = result

    # Notes and tasks.

    def add_note(
        self, kind: Written, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        """Zoho dates notes itself, so the title has the date.

        Of one record, a note with the same title and text is the same note.
        """
        self.check_kind(kind)
        self.check_id(record_id)
        self.existing(kind, record_id)
        module = self.kinds[kind].path
        title = f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        params = {"fields": "Note_Title,Note_Content", "page": "1", "per_page": "200"}
        path = (module, record_id, "Notes")
        for answer, note in self.items(*path, params=params, list_in="data") if mark else ():
            if (note.get("Note_Title"), note.get("Note_Content")) == (title, text):
                return Saved(answer.id(note), "created")
        parent = {"module": {"api_name": module}, "id": record_id}
        row = {"Note_Title": title, "Note_Content": text, "Parent_Id": parent}
        return self._added("Notes", row)

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """A task is due on a day. An equal one of the last day that is open is the same task."""
        self.check_id(contact_id)
        row, problems = dict[str, Any](), list[Problem]()
        for name, text in properties.items():
            if text:
                try:
                    row[_TASK.get(name, "")] = _in_task(name, text)
                except Misfit as exc:
                    problems.append(Problem(name, str(exc), exc.options))
        if problems:
            raise Rejected(problems)
        self.existing("contacts", contact_id)
        columns, since = sorted({*_TASK.values(), "Status", "Created_Time"}), time.time() - _DAY_S
        where = f"Who_Id = '{contact_id}'"
        for task in self._query("Tasks", columns, where) if mark else ():
            of_today = parse_time(task["Created_Time"]) >= since + self.clock_ahead()
            compared = {"Description", "Due_Date", *row}
            equal = all(_same(task.get(name), row.get(name)) for name in compared)
            if of_today and equal and task["Status"] != "Completed":
                return Saved(task["id"], "created")
        try:
            return self._added("Tasks", {**row, "Who_Id": {"id": contact_id}})
        except Rejected as exc:
            ours = {theirs: name for name, theirs in _TASK.items()}
            exc.rename(lambda name: ours.get(name, name))
            raise

    def _added(self, module: str, row: Mapping[str, Any]) -> Saved:
        [written] = self._write_rows("POST", module, [row])
        return Saved(written, "created")

    # Writes without an answer.

    def find_unique_mark(self, kind: Kind, mark: str) -> Saved | None:
        for row in self._rows(kind, [self.mark_name], [self.mark_name], [mark]):
            if row.get(self.mark_name) == mark:
                return self.saved(kind, row, "created")
        return None

    def clock_ahead(self) -> float:
        return self._heavy.clock_ahead or self.http.clock_ahead

    def search_mark(self, kind: Kind, mark: str) -> Saved | None:
        return self.find_unique_mark(kind, mark)

    def candidates(
        self, kind: Linked, contact_id: str, names: Iterable[str], others: Collection[str]
    ) -> Iterator[Candidate]:
        self.check_id(contact_id)
        link, names = self._link(kind), [*names]
        asked = [*names, link.name, "Created_Time"]
        for row in self._rows(kind, asked, [link.name], [contact_id]):
            # The link is compared again, since the lookup is COQL's.
            if row["id"] not in others and self.text(link, row) == contact_id:
                yield self._candidate(kind, row, names)

    def latest(self, kind: Kind, since: float, names: Iterable[str]) -> Iterator[Candidate]:
        where, names = f"Created_Time >= '{_moment(since)}'", [*names]
        ids = [row["id"] for row in self._query(self.kinds[kind].path, (), where)]
        for row in self.read_several(kind, ids, names):
            yield self._candidate(kind, row, names)

    def _candidate(self, kind: Kind, row: Row, names: Iterable[str]) -> Candidate:
        created, values = parse_time(row.get("Created_Time")), self._texts(kind, row, names)
        return Candidate(self.saved(kind, row, "created"), created, values)

    # Definitions.

    def _fields(self, kind: Kind, *, newer_than: float = HOUR) -> Mapping[str, ZohoField]:
        fields = self.definitions.fields(kind, newer_than=newer_than)
        return cast("Mapping[str, ZohoField]", fields)

    def _link(self, kind: Linked) -> ZohoField:
        if name := self.links(kind).get("contacts"):
            return self._fields(kind)[name]
        module = self.kinds[kind].path
        raise hub.Unsupported(f"{module} have no field for a contact in this Zoho account.")

    def load_fields(self, kind: Kind) -> Iterator[Field | None]:
        params = {"module": self.kinds[kind].path, "include": "allowed_permissions_to_update"}
        try:
            answer = self.call("GET", "settings", "fields", params=params)
        except hub.BadConfig as exc:
            if kind != "tickets" or "INVALID_MODULE" not in exc.message:
                raise
            raise hub.Unsupported("This edition of Zoho CRM has no cases.") from None
        for raw in answer.items("fields"):
            if not isinstance(raw.get("api_name"), str) or not raw["api_name"]:
                raise answer.broken("a field has no name")
            if raw.get("visible") is not False:
                yield self._field(kind, raw)

    def _field(self, kind: Kind, raw: Mapping[str, Any]) -> Field | None:
        their_type, form, length = (raw.get(n) for n in ("data_type", "json_type", "length"))
        if form in ("jsonarray", "jsonobject") and their_type not in (_OPTIONS[1], *_LINKS):
            return None
        if their_type in ("integer", "double", "percent") and form == "string":
            their_type = "bigint"
        has_options = their_type in _OPTIONS
        has_length = form == "string" and not has_options and their_type != "datetime"
        forbidden = value_at(raw, "operation_type") or {}
        refuses = tuple(one for one in (_CREATE, _UPDATE) if forbidden.get(one) is False)
        read_only = raw.get("read_only") or raw.get("field_read_only") or len(refuses) == 2
        return self.field(
            kind,
            raw["api_name"],
            text_of(raw.get("field_label")),
            text_of(their_type),
            _choices(raw.get("pick_list_values")) if has_options else (),
            make=ZohoField,
            read_only=bool(read_only),
            required=raw.get("system_mandatory") is True,
            longest=length if has_length and isinstance(length, int) else 0,
            is_user=their_type in _USERS,
            refuses=refuses,
            unique=bool(raw.get("unique")),
            in_any_case=value_at(raw, "unique", "case_sensitive") is False,
            is_encrypted=bool(raw.get("crypt")),
            leads_to=text_of(value_at(raw, "lookup", "module", "api_name")),
            created=parse_time(raw.get("created_time")),
        )

    def load_pipelines(self, kind: Linked) -> list[hub.Pipeline]:
        found: dict[str, hub.Pipeline] = {}
        layouts: list[str] = []
        if kind == "deals":
            answer = self.call("GET", "settings", "layouts", params={"module": "Deals"})
            active = [one for one in answer.items("layouts") if one.get("status") != "inactive"]
            layouts = [answer.id(layout) for layout in active]
        for layout in layouts:
            answer = self.call("GET", "settings", "pipeline", params={"layout_id": layout})
            listed = [] if answer.status == 204 else answer.items("pipeline")
            for raw in sorted(listed, key=lambda raw: raw.get("default") is not True):
                stages = _choices(raw.get("maps"))
                for one in _choices([raw]):
                    pipeline = InLayout(one.value, one.label, stages, layout)
                    # Records name their pipeline by its text: the first of two equal ones counts.
                    found.setdefault(pipeline.id, pipeline)
        if found:
            return list(found.values())
        stage = self._fields(kind).get(PLACES[kind][1])
        return [InLayout("", "", stage.options if stage else ())]

    def load_owners(self) -> list[hub.Owner]:
        params = {"type": "ActiveUsers", "page": "1", "per_page": "200"}
        return [
            hub.Owner(user["id"], text_of(user.get("email")), text_of(user.get("full_name")))
            for user in self.rows("users", params=params)
        ]

    def next_page(self, answer: Answer, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        has_more = value_at(answer.body, "info", "more_records") is True
        return {**params, "page": str(int(params["page"]) + 1)} if has_more else None

    # The connection test.

    def check(self) -> None:
        """Write nothing; LacksRight has all missing rights, BadConfig a field that does not fit."""
        fields: dict[Written, dict[str, Any]] = {}

        def load(kind: Written) -> None:
            with suppress(hub.Unsupported):
                fields[kind] = {one.theirs: one for one in self.definitions.load_fields(kind)}

        def try_write(method: str, kind: Written) -> None:
            # Without a record, which Zoho refuses to those who have the right.
            with suppress(Rejected):
                self.call(method, self.kinds[kind].path, body={"data": []}, reads=True)

        kinds: tuple[Written, ...] = ("contacts", "deals", "tickets")
        missing = self.lacking(("settings.fields.READ", partial(load, kind)) for kind in kinds)
        probes: list[tuple[str, Callable[[], object]]] = []
        for kind in fields:
            scope = f"modules.{self.kinds[kind].path.lower()}"
            # No record has this id.
            reads = partial(self._query, self.kinds[kind].path, (), "id in ('1')")
            probes.append((f"{scope}.READ and coql.READ", reads))
            probes.append((f"{scope}.CREATE", partial(try_write, "POST", kind)))
        probes.append(("modules.contacts.UPDATE", partial(try_write, "PUT", "contacts")))
        probes.append(("settings.layouts.READ", partial(self.load_pipelines, "deals")))
        probes.append(("users.READ", self.load_owners))
        if missing := [*missing, *self.lacking(probes)]:
            scopes = ", ".join(f"ZohoCRM.{scope}" for scope in missing)
            raise hub.LacksRight(
                f"The connection lacks rights in Zoho: {scopes}. Connect the account again with"
                " these scopes, as a user whose profile may do this."
            )
        problems = []
        email = fields["contacts"].get("Email")
        if email is None or email.is_encrypted:
            reason = "Zoho encrypts or hides Email of Contacts, so no contact is found by it"
            problems.append(Problem("", reason))
        for kind, listed in fields.items() if self.mark_name else ():
            mark, module = listed.get(self.mark_name), self.kinds[kind].path
            fixed = mark and (mark.read_only or _CREATE in mark.refuses)
            if not mark or fixed or mark.type != "string" or mark.is_encrypted:
                reason = f"{module} have no text field {self.mark_name} that the hub may write"
                problems.append(Problem("mark_field", f"{reason} and find"))
        if problems:
            raise hub.BadConfig("; ".join(p.reason for p in problems), problems=problems)


def _choices(listed: Any) -> tuple[hub.Choice, ...]:
    """Return a field's options, or a pipeline's stages, without the one that means nothing."""
    named = [(one.get("actual_value"), one.get("display_value")) for one in objects_in(listed)]
    values = {str(value or label): str(label or value) for value, label in named if value or label}
    return tuple(hub.Choice(*one) for one in values.items() if one[0] != _NOTHING)


def _moment(seconds: float) -> str:
    """Return a time as Zoho takes it: ISO 8601 in whole seconds, with an offset."""
    return datetime.fromtimestamp(max(seconds, 0.0), UTC).isoformat(timespec="seconds")


def _in_task(name: str, text: str) -> Any:
    """Return the JSON of a task's property; raises Misfit."""
    match name:
        case "subject" | "notes":
            return text
        case "owner" if text.isdecimal():
            return {"id": text}
        case "due" if parse_time(text):
            return datetime.fromtimestamp(parse_time(text), UTC).date().isoformat()
        case "priority" if text in _PRIORITIES:
            return _PRIORITIES[text]
    raise Misfit("Zoho's tasks do not take it", _PRIORITIES if name == "priority" else ())


def _same(stored: Any, sent: Any) -> bool:
    return _read_link(stored) == _read_link(sent)
