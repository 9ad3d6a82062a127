"""The adapter for Odoo, over JSON-RPC (Odoo 17 and 18) or JSON-2 (Odoo 19 and later).

Every write is a `load`, Odoo's import of rows. It names the field at fault, knows no archived
record, and takes the mark of a create as external id: a second `load` with it changes nothing. Each
call is one transaction, so an error that Odoo itself reports means that nothing was written.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any, ClassVar

from crmhub import adapter as hub
from crmhub.adapter import Choice, Kind, Linked, Problem, Rejected, Saved, Setting
from crmhub.adapter.answers import objects_in, parse_time, text_of, value_at
from crmhub.adapter.batches import Action, Results
from crmhub.adapter.coercion import Misfit
from crmhub.adapter.fields import Field
from crmhub.adapter.http import Answer
from crmhub.adapter.phones import notations
from crmhub.adapter.remembered import Remembered
from crmhub.adapter.rest_adapter import RestAdapter
from crmhub.adapter.table_adapter import TableAdapter
from crmhub.adapter.tables import Codec, Records, Row, Write
from crmhub.adapter.types import from_html, to_html, to_text
from crmhub.adapter.walks import Walk, all_of, fits, page_of

PARTNER, TICKET, TASK = "res.partner", "helpdesk.ticket", "project.task"
_OWNER, _PRIORITY = "hubspot_owner_id", "hs_ticket_priority"
_DEAL = {"dealname": "name", "amount": "expected_revenue", "closedate": "date_deadline"}
_DEAL |= {"pipeline": "team_id", "dealstage": "stage_id", _OWNER: "user_id"}
_TICKET = {"subject": "name", "content": "description", _PRIORITY: "priority", _OWNER: "user_id"}
_TICKET |= {"hs_pipeline": "team_id", "hs_pipeline_stage": "stage_id"}
_TASK = _TICKET | {"hs_pipeline": "project_id", _OWNER: "user_ids"}
_ACTIVITY = {"subject": "summary", "notes": "note", "due": "date_deadline"}
_ACTIVITY |= {"owner": "user_id/.id"}
_TYPES: dict[str, hub.PropertyType] = {"email": "email", "website": "url", "user_id": "enumeration"}
_TYPES |= dict.fromkeys(("phone", "mobile"), "phone")
_LINKED_TYPES = _TYPES | dict.fromkeys(("team_id", "stage_id"), "enumeration")
# Whether the contact of a deal is a person or a company, its record does not tell.
_CONTACT, _COMPANY = "partner_id of a person", "partner_id of a company"


def _records(
    model: str,
    names: Mapping[str, str],
    types: Mapping[str, hub.PropertyType],
    hidden: Sequence[str] = (),
    links: Mapping[Kind, str] = {"contacts": _CONTACT, "companies": _COMPANY},
) -> Records:
    times = {"changed": "write_date", "created": "create_date"}
    return Records(model, names, types, hidden, links=links, **times)


_TICKETS = {
    TICKET: _records(TICKET, _TICKET, _LINKED_TYPES),
    TASK: _records(TASK, _TASK, _LINKED_TYPES | {"project_id": "enumeration"}),
}
# The models of pipelines and stages.
_PLACES = {
    "crm.lead": ("crm.team", "crm.stage"),
    TICKET: ("helpdesk.team", "helpdesk.stage"),
    TASK: ("project.project", "project.task.type"),
}
_ATTRIBUTES = ("string", "type", "selection", "required", "readonly", "store")
# The contact of a deal or ticket; what is written to the others, Odoo writes to the contact, too.
_OF_CONTACT = ("partner_id", "email_from", "phone", "mobile", "partner_email", "partner_phone")
# HubSpot's priorities in the order of Odoo's, by the number of Odoo's.
_PRIORITIES = {2: ("low", "high"), 4: ("low", "medium", "high", "urgent")}
# People: neither companies nor addresses, and nobody who works in Odoo.
_PEOPLE: list[Any] = [["is_company", "=", False], ["partner_share", "=", True]]
_PEOPLE += [["type", "in", ["contact", False]]]
_IS_COMPANY = ["is_company", "=", True]
_DOMAINS: Mapping[Kind, list[Any]] = {
    "contacts": _PEOPLE,
    "companies": [_IS_COMPANY],
    "deals": [["type", "=", "opportunity"]],
}
# Records in a page of what changed; without their properties, ten times as many.
_PAGE = 500
# What new records have. Odoo gives a contact the time zone of the call.
_NEW: Mapping[Kind, Mapping[str, str]] = {
    "contacts": {"tz": ""},
    "companies": {"tz": "", "is_company": "1"},
    "deals": {"type": "opportunity"},
}
_ADDRESS_ENDS = re.compile(r"[\s,;<>\"]+")
_NO_INTERFACE = (
    "Odoo is not at this address, or has no such interface: json-2 is for Odoo 19 and later,"
    " json-rpc for 17 and 18. If the address has several databases, enter the right one."
)
_NO_APP = "This Odoo lacks an app, or has another version"
_BUSY = "could not serialize|deadlock|could not obtain lock|Serialization|Lock"
_OTHER = "^(NotFound|UnprocessableEntity|BadRequest|AttributeError):"
_VALUES = "^((User|Validation|Value|Type|Key|Data)Error|RedirectWarning|NumericValueOutOfRange):"
_KEY = r"^(AccessDenied|Unauthorized|SessionExpiredException):|^MissingError:.*res\.users\("
_busy, _refused = partial(hub.NotYet, retry_after=1.0), partial(Rejected, [])
# By the class of Odoo's exception and its message: the first that matches counts.
_ERRORS: Sequence[tuple[str, Callable[[str], hub.AdapterError], str]] = (
    (_BUSY, _busy, "Odoo is busy with the same records"),
    ("Object (?:(?!Object ).)* doesn't exist", hub.BadConfig, _NO_APP),
    (_OTHER, hub.BadConfig, _NO_APP),
    ("^OperationalError:.*does not exist", hub.BadConfig, "Odoo has no such database"),
    (_VALUES, _refused, "Odoo does not take these values"),
    (_KEY, hub.Denied, "Odoo refuses the API key or the user"),
    ("^AccessError:", hub.LacksRight, "The user lacks rights in Odoo"),
    ("^MissingError:", hub.NotFound, "Odoo has no such record"),
    ("", hub.Unavailable, "Odoo broke down ({})"),
)
_STEPS = (
    hub.Step(
        "In Odoo, create a user for crmhub. It needs the right Contact Creation, and may see all"
        " leads, tickets or tasks."
    ),
    hub.Step(
        "As this user, open My Preferences > Security and add an API key. From Odoo 19 on, a key"
        " ends after three months at most. Then enter another one here.",
        "https://www.odoo.com/documentation/19.0/developer/reference/external_api.html",
        "Odoo on its external API",
    ),
)


def _cell(of: hub.PropertyType, write: Any = str, read: Any = to_text) -> Codec:
    """Where nothing is stored, Odoo answers false; an empty cell clears a value."""
    return Codec(of, write, lambda value: read(value) if value else "", "")


def _not_zero(value: Any) -> str:
    """Where nothing is stored, Odoo answers 0 for a number."""
    return {"0": "", "false": ""}.get(text := to_text(value), text)


def _integer(text: str) -> str:
    if abs(Decimal(text)) >= 2**31:
        raise Misfit("Odoo takes only whole numbers below 2147483648 here")
    return text


def _time(text: str) -> str:
    if text < "1000":
        raise Misfit("Odoo takes no year before 1000")
    return text[:19].replace("T", " ")


def _ids(value: Any) -> str:
    """Return the ids of a link in ascending order, as Odoo gives it or as its cell has it."""
    ids = value if isinstance(value, list) else str(value).split(",")
    if len(ids) == 2 and isinstance(ids[0], int) and isinstance(ids[1], str):
        # One record, and its name.
        ids = ids[:1]
    return ";".join(sorted(map(str, ids), key=lambda id: (len(id), id)))


class OdooAdapter(RestAdapter):
    title = "Odoo"
    own_titles: ClassVar[Mapping[Linked, str]] = {"deals": "name", "tickets": "name"}
    record_pages = True
    whole_name = "name"
    email_names = ("email", "email_normalized")
    # A further address of somebody is no reason to write another person's values there.
    searched_emails = ("email_normalized",)
    linked_kinds: ClassVar[Mapping[Linked, str]] = {"deals": "", "tickets": "tickets"}
    batch_size = 50
    # Odoo ends a request after 120 s (limit_time_real); before, it may wait for a free worker.
    under_way_s = 180.0
    largest_id = 2**31 - 1
    token_name = "api_key"
    # A worker of Odoo serves one call at a time, and people need some of them.
    at_once = 4
    untold_deletions = frozenset(("contacts", "companies", "deals", "tickets"))
    # A deal or ticket has one partner, a person or a company.
    one_link = True
    kinds: ClassVar = {
        "contacts": _records(
            PARTNER,
            {"mobilephone": "mobile", _OWNER: "user_id"},
            _TYPES,
            links={"companies": "parent_id"},
        ),
        "companies": _records(PARTNER, {_OWNER: "user_id"}, _TYPES, ["is_company"], {}),
        "deals": _records("crm.lead", _DEAL, _LINKED_TYPES),
    }
    codecs: ClassVar = {
        "char": _cell("string"),
        "text": _cell("text"),
        "html": _cell("text", to_html, from_html),
        "integer": _cell("number", _integer, _not_zero),
        "float": _cell("number", read=_not_zero),
        "monetary": _cell("currency", read=_not_zero),
        "boolean": _cell("bool", read=_not_zero),
        "date": _cell("date", _time),
        "datetime": _cell("datetime", _time, lambda value: f"{value.replace(' ', 'T')}.000Z"),
        "selection": _cell("enumeration"),
        "many2one": _cell("number", read=_ids),
        "many2many": _cell("multi_enumeration", lambda text: text.replace(";", ","), _ids),
    }
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("base_url", "Address", "url", "Such as https://acme.odoo.com", required=True),
        Setting(
            "interface",
            "Interface",
            help="json-2 for Odoo 19 and later, json-rpc for Odoo 17 and 18.",
            choices=("json-2", "json-rpc"),
            default="json-2",
        ),
        Setting("db", "Database", help="For json-rpc, or if the address has several databases."),
        Setting("user", "User", help="For json-rpc: the login of the user with the API key."),
        Setting("api_key", "API key", secret=True, required=True),
        Setting(
            "tickets",
            "Tickets",
            help="Odoo's model for tickets. helpdesk.ticket needs Odoo Enterprise.",
            choices=tuple(_TICKETS),
        ),
        Setting("project", "Project", help="For project.task: the id of the project."),
        Setting("language", "Language", help="Of labels, such as de_DE.", default="en_US"),
    )
    guides = (hub.Guide("Make an API key", _STEPS),)

    def __init__(self, context: hub.Context) -> None:
        if model := context.settings["tickets"]:
            self.kinds = {**self.kinds, "tickets": _TICKETS[model]}  # type: ignore[misc]
        super().__init__(context)
        self._is_rpc = context.settings["interface"] == "json-rpc"
        # JSON-RPC names the user by number: each process learns it by a login, once an hour.
        self._user = Remembered(self._log_in, context)

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        for name in ("db", "user"):
            if settings["interface"] == "json-rpc" and not settings[name]:
                return Problem(name, "The interface json-rpc needs database and user.")
        if settings["tickets"] == TASK and not cls.may_be_id(settings["project"]):
            return Problem("project", "Enter the id of the project in which tickets are tasks.")
        return ""

    def may_land_for(
        self, kind: Kind, properties: Mapping[str, str], *, contact_id: str = ""
    ) -> float:
        """Return 0: the mark is a unique external id, so a repeated create returns the record."""
        return 0.0

    def page(self, kind: Kind, record_id: str) -> str:
        base, model = self.base_url().rstrip("/"), self.kinds[kind].path
        of_rpc = f"web#id={record_id}&model={model}&view_type=form"
        return f"{base}/{of_rpc if self._is_rpc else f'odoo/{model}/{record_id}'}"

    def find(self, by: str, values: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        """A person is found by the first address in the field Email, and by both phones."""
        domain = [["email_normalized", "in", values]] if by == "email" else self._holders(values)
        yield from self._search(PARTNER, [*_PEOPLE, *domain], *self.theirs("contacts", names))

    def _holders(self, phones: Sequence[str]) -> list[Any]:
        fields = self.definitions.fields("contacts")
        forms = [form for one in phones for form in notations(one)]
        terms: list[Any] = [[name, "in", forms] for name in ("phone", "mobile") if name in fields]
        if "phone_mobile_search" in fields:
            # Finds numbers in any punctuation.
            terms += [["phone_mobile_search", "=", one] for one in phones if one.startswith("+")]
        if "mobile" not in fields:
            # After an upgrade, the one field that is left may hold both, in likely notations.
            merged = [form for one in phones for form in notations(one)[:4]]
            terms += [["phone", "=like", f"{form} | %"] for form in merged]
            terms += [["phone", "=like", f"% | {form}"] for form in merged]
        return ["|"] * (len(terms) - 1) + terms

    def read(self, contact_id: str, names: Sequence[str]) -> Row:
        asked = self.theirs("contacts", names)
        for row in self._search(PARTNER, [["id", "=", int(contact_id)]], *asked):
            return row
        raise hub.NotFound(f"Odoo has no contact {contact_id}")

    # A copy.

    def seconds(self, value: Any) -> float:
        return parse_time(f"{value}Z")

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> hub.ChangedPage:
        """Walk by id. Archived records are told as deleted, and others that left the kind."""
        self.check_kind(kind)
        walk, asked, own = Walk.of(since), time.time(), self._domain(kind)
        domain, most = own, _PAGE if names else 10 * _PAGE
        if walk.since:
            at = _timestamp(walk.changed_after)
            domain = [["write_date", ">=", at], ["active", "in", [True, False]]]
        last = int(walk.cursor or 0)
        total = self._count(self.kinds[kind].path, own) if names and not since else None
        rows, more = page_of(partial(self._rows, kind, domain, names, last), most)
        page = walk.page(
            [self.to_record(kind, row, names) for row in rows if fits(row, own)],
            rows[-1]["id"] if more else "",
            asked=asked + self.http.clock_ahead,
            deleted=[row["id"] for row in rows if not fits(row, own)],
        )
        return replace(page, total=total)

    def read_several(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        domain = [["id", "in", [*map(int, ids)]], *self._domain(kind)]
        return all_of(partial(self._rows, kind, domain, names), _PAGE)

    def _domain(self, kind: Kind) -> list[Any]:
        """Return what is true of each record of a kind, for `fits`."""
        more = [["active", "=", True]]
        if self.kinds[kind].path == TASK:
            more.append(["project_id", "=", int(self.context.settings["project"])])
        return [*_DOMAINS.get(kind, []), *more]

    def _rows(
        self, kind: Kind, domain: list[Any], names: Sequence[str], last: int, most: int
    ) -> list[Row]:
        """Return the first records after the id `last`, with their times and links."""
        of_domain = [name for name, *_ in self._domain(kind)]
        link = "parent_id" if self.kinds[kind].path == PARTNER else "partner_id"
        asked = [*self.theirs(kind, names), *of_domain, link, "create_date", "write_date"]
        after, model = [["id", ">", last], *domain], self.kinds[kind].path
        # Without the names of linked records, which Odoo may have to compute.
        rows = self._search(model, after, *asked, limit=most, load="")
        linked = [row[link] for row in rows if row.get(link)]
        if link == "partner_id" and linked:
            companies = [["id", "in", linked], _IS_COMPANY, ["active", "in", [True, False]]]
            ids = {row["id"] for row in self._search(PARTNER, companies)}
            rows = [
                {**row, (_COMPANY if str(row[link]) in ids else _CONTACT): row[link]}
                for row in rows
            ]
        return [{_CONTACT: False, _COMPANY: False, **row} for row in rows]

    def changes(self, contact: hub.Contact, properties: Mapping[str, str]) -> hub.Changes:
        return super().changes(contact, _corrected(contact, properties))

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        self.check_id(contact_id)
        # Odoo repeats other methods by itself when two calls write one record, but no `load`.
        with self.context.lease(f"contact {contact_id}", self.context.remaining()):
            if len(_addresses(properties.get("email", ""))) == 1:
                properties = _corrected(self.get_contact(contact_id, ["email"]), properties)
            return super().update_contact(contact_id, properties)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        try:
            return super().create_contact(properties, mark=mark)
        except hub.Conflict:
            # An earlier attempt's contact may have the email. Odoo creates none without a name.
            with suppress(NotLoaded):
                if mark:
                    [record_id] = self._load(PARTNER, [{"id": f"crmhub.{mark}"}])
                    return self.saved("contacts", {"id": record_id}, "created")
            raise

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        return super().create_for_contact(
            kind, contact_id, self._worded(kind, properties), mark=mark
        )

    def write(
        self, kind: Kind, record_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        # Not `super()`: its class lacks the hook `delete`, and so this method.
        worded = self._worded(kind, properties)
        return TableAdapter.write(self, kind, record_id, worded, mark=mark)

    def _worded(self, kind: Kind, properties: Mapping[str, str]) -> dict[str, str]:
        """HubSpot's words for the priority of a ticket are understood, too."""
        self.check_kind(kind)
        field = self.definitions.fields(kind).get("priority") if kind == "tickets" else None
        values = [option.value for option in field.options] if field else []
        words = dict(zip(_PRIORITIES.get(len(values), ()), values, strict=False))
        named = {n: text for n, text in properties.items() if n in (_PRIORITY, "priority")}
        named = {n: words.get(text.strip().lower(), text) for n, text in named.items()}
        return {**properties, **named}

    def before_write(self, write: Write) -> None:
        """Make `values` a row of a `load`, where the columns of links have names of their own."""
        fields, values = self.definitions.fields(write.kind), write.values
        model, fixed = self.kinds[write.kind].path, dict[str, Any]()
        if model == PARTNER and values.get("name") == "":
            raise Rejected([Problem("name", "Odoo needs a name here")])
        if write.record_id:
            fixed[".id"] = write.record_id
        else:
            fixed |= _NEW.get(write.kind, {})
            # Under the name of a module, which need not exist.
            fixed |= {"id": f"crmhub.{write.mark}"} if write.mark else {}
        if model != PARTNER and write.contact:
            fixed["partner_id/.id"] = write.contact["id"]
        elif write.kind == "contacts" and not write.record_id:
            # Odoo has no contact without a name.
            names = [values[name] for name in ("email", "phone", "mobile") if name in values]
            fixed["name"] = "".join(names[:1])
        links = {n: f"{n}/.id" for n in values if fields[n].their_type.startswith("many2")}
        write.values = fixed | {links.get(name, name): cell for name, cell in values.items()}

    def send(self, write: Write) -> Row:
        model = self.kinds[write.kind].path
        try:
            return {"id": self._load_one(model, write.values)}
        except NotLoaded as exc:
            if {".id", "partner_id"} & {problem.name for problem in exc.problems}:
                raise hub.NotFound("Odoo has no such record") from exc
            raise

    def set_link(self, kind: Kind, row: Row, name: str, to_id: str) -> None:
        values = {".id": row["id"], f"{name.partition(' ')[0]}/.id": to_id}
        self.send(Write(kind, {}, values=values))

    def delete(self, kind: Kind, record_id: str) -> None:
        """Archive a record: people find it with the filter Archived. A deal is lost then."""
        self.existing(kind, record_id)
        values = {".id": record_id, "active": "0"}
        self.send(Write(kind, {}, values=values))

    def add_note(
        self, kind: hub.Written, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        """Write an internal note, which no follower gets by email."""
        self.check_kind(kind)
        self.check_id(record_id)
        self.existing(kind, record_id)
        row = {
            **({"id": f"crmhub.{mark}"} if mark else {}),
            "model": self.kinds[kind].path,
            "res_id": record_id,
            "message_type": "comment",
            "subtype_id/id": "mail.mt_note",
            "date": _timestamp(at_ms / 1000),
            "body": to_html(text),
        }
        return Saved(self._load_one("mail.message", row), "created")

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Plan an activity for the contact; it has a day, and no priority."""
        given = {name: text for name, text in properties.items() if text}
        if unknown := given.keys() - _ACTIVITY.keys():
            raise Rejected([Problem(n, "Odoo's activities have no such property") for n in unknown])
        self.check_id(contact_id)
        self.existing("contacts", contact_id)
        if "notes" in given:
            given["notes"] = to_html(given["notes"])
        if "due" in given:
            given["due"] = given["due"][: len("2026-12-31")]
        row = {
            **({"id": f"crmhub.{mark}"} if mark else {}),
            "res_model_id/id": "base.model_res_partner",
            "res_id": contact_id,
            "activity_type_id/id": "mail.mail_activity_data_todo",
            **{_ACTIVITY[name]: text for name, text in given.items()},
        }
        try:
            return Saved(self._load_one("mail.activity", row), "created")
        except Rejected as exc:
            ours = {theirs.partition("/")[0]: name for name, theirs in _ACTIVITY.items()}
            exc.rename(lambda name: ours.get(name, name))
            raise

    def send_batch(
        self, action: Action, items: Mapping[int, hub.ContactWrite], results: Results
    ) -> None:
        # All rows of a `load` have the same columns, and an empty cell clears a value.
        batches: dict[tuple[str, ...], dict[int, Row]] = {}
        with self.prepared(items, results) as writes:
            for index, write in writes.items():
                batches.setdefault(tuple(write.values), {})[index] = write.values
            for rows in batches.values():
                self._load_batch(f"{action}d", rows, results)

    def _load_batch(self, outcome: Any, rows: Mapping[int, Row], results: Results) -> None:
        """Without a result, a row is written alone, and gets an error of its own if it is bad."""
        try:
            ids = self._load(PARTNER, list(rows.values()))
            saved = [self.saved("contacts", {"id": id}, outcome) for id in ids]
            results.update(zip(rows, saved, strict=True))
        except NotLoaded as exc:
            good = {index: row for i, (index, row) in enumerate(rows.items()) if i not in exc.rows}
            if 0 < len(good) < len(rows):
                self._load_batch(outcome, good, results)
        except hub.AdapterError as exc:
            if not isinstance(exc, hub.Conflict | hub.NotFound | hub.NotYet | Rejected):
                results.update(dict.fromkeys(rows, exc))

    def load_fields(self, kind: Kind) -> Iterator[Field | None]:
        records = self.kinds[kind]
        for theirs, told in self._fields(records.path, *_ATTRIBUTES).items():
            of_contact = records.path != PARTNER and theirs in _OF_CONTACT
            yield self.field(
                kind,
                theirs,
                text_of(told.get("string")),
                text_of(told.get("type")),
                [Choice(*map(text_of, one)) for one in told.get("selection") or ()],
                read_only=of_contact or bool(told.get("readonly")) or told.get("store") is False,
                required=bool(told.get("required")) or (kind == "companies" and theirs == "name"),
                is_user=theirs == records.names[_OWNER],
            )

    def load_pipelines(self, kind: Linked) -> list[hub.Pipeline]:
        model, of_stages = _PLACES[self.kinds[kind].path]
        domain: list[Any] = [["use_opportunities", "=", True]] if kind == "deals" else []
        if model == "project.project":
            domain = [["id", "=", int(self.context.settings["project"])]]
        pipelines = self._search(model, domain, "name", order="sequence, id")
        fields = self._fields(of_stages, "type")
        link = next((n for n in ("team_ids", "team_id", "project_ids") if n in fields), "name")
        stages: dict[str, list[Choice]] = {one["id"]: [] for one in pipelines}
        for one in self._search(of_stages, [], "name", link, order="sequence, id"):
            linked = _ids(one[link]).split(";") if isinstance(one.get(link), list) else []
            # A stage of leads without a team is a stage of all teams.
            for pipeline in stages if kind == "deals" and not any(linked) else linked:
                stages.get(pipeline, []).append(Choice(one["id"], text_of(one.get("name"))))
        named = {one["id"]: text_of(one.get("name")) for one in pipelines}
        return [hub.Pipeline(id, named[id], tuple(found)) for id, found in stages.items() if found]

    def load_owners(self) -> list[hub.Owner]:
        users = self._search("res.users", [["share", "=", False]], "name", "login", "email")
        return [
            hub.Owner(
                one["id"], str(one.get("email") or one.get("login") or ""), text_of(one.get("name"))
            )
            for one in users
        ]

    def check(self) -> None:
        """Raise BadConfig, or LacksRight with all missing rights; nothing is cached."""
        if "email_normalized" not in self._fields(PARTNER, "type"):
            raise hub.BadConfig("This Odoo cannot find contacts by email; install its app CRM.")
        creates = {("create", records.path): None for records in self.kinds.values()}
        self._check_rights(("write", PARTNER), *creates)
        for kind in self.linked_kinds:
            if kind in self.kinds and not self.load_pipelines(kind):
                model, _ = _PLACES[self.kinds[kind].path]
                raise hub.BadConfig(f"Odoo shows this user no {model} with stages.")

    def _check_rights(self, *rights: tuple[str, str]) -> None:
        method, more = "has_access", dict[str, Any]()
        if self._is_rpc:
            method, more = "check_access_rights", {"raise_exception": False}
        lacking = []
        for operation, model in rights:
            answer = self._ask(model, method, operation=operation, **more)
            if answer.object().get("result") is not True:
                lacking.append(f"{operation} {model}")
        if lacking:
            raise hub.LacksRight(f"The user lacks rights in Odoo: {', '.join(lacking)}")

    # Calls.

    def _search(
        self, model: str, domain: list[Any], *names: str, order: str = "id", **options: Any
    ) -> list[Row]:
        """Return records, oldest first; Odoo's own order is by name, or by priority."""
        asked = {"domain": domain, "fields": sorted({*names}), "order": order, **options}
        answer = self._ask(model, "search_read", **asked)
        return [{**record, "id": answer.id(record)} for record in answer.items("result")]

    def _count(self, model: str, domain: list[Any]) -> int | None:
        total = self._ask(model, "search_count", domain=domain).object().get("result")
        return total if isinstance(total, int) else None

    def _fields(self, model: str, *attributes: str) -> Mapping[str, Mapping[str, Any]]:
        answer = self._ask(model, "fields_get", attributes=attributes)
        fields = answer.mapping(answer.object().get("result"))
        if "name" not in fields:
            raise answer.broken("it does not list the fields of records")
        return {name: answer.mapping(told) for name, told in fields.items()}

    def _load(self, model: str, rows: Sequence[Row]) -> list[str]:
        """Create or update a record for each row, all or none; return the ids in their order.

        The column `id` has the external ids of new records; an existing one stands for its record,
        which is left as it is. `.id` has the ids of records to update. Raises NotLoaded.
        """
        context = {"mode": "update", "noupdate": True} if "id" in rows[0] else {}
        columns, data = list(rows[0]), [list(row.values()) for row in rows]
        answer = self._ask(model, "load", reads=False, context=context, fields=columns, data=data)
        ids = answer.mapping(answer.object().get("result")).get("ids")
        if not isinstance(ids, list) or len(ids) != len(rows):
            raise answer.broken("it names other ids than those of the rows")
        return [answer.id({"id": id}) for id in ids]

    def _load_one(self, model: str, row: Row) -> str:
        try:
            return self._load(model, [row])[0]
        except NotLoaded as exc:
            # `load` tells a missing right in words only.
            if not exc.problems:
                self._check_rights(("write" if ".id" in row else "create", model))
            raise

    def _ask(self, model: str, method: str, *, reads: bool = True, **named: Any) -> Answer:
        """Return an answer with the result under "result"; `reads`: the method writes nothing."""
        # Without a zone of its own, a call has the user's, in which `load` reads times.
        context = {"lang": self.context.settings["language"], "tz": "UTC"}
        named["context"] = {**context, **named.get("context", {})}
        if self._is_rpc:
            args = [self._user.get(), model, method, [], named]
            return self._rpc("object", "execute_kw", *args, reads=reads)
        answer = self.call("POST", "json", "2", model, method, body=named, reads=reads)
        return replace(answer, body={"result": answer.body})

    def _rpc(self, service: str, method: str, user: Any, *args: Any, reads: bool = True) -> Answer:
        given = [self.context.settings["db"], user, self.grant.token(), *args]
        params = {"service": service, "method": method, "args": given}
        body = {"jsonrpc": "2.0", "method": "call", "id": 1, "params": params}
        return self.call("POST", "jsonrpc", body=body, reads=reads)

    def _log_in(self) -> int:
        answer = self._rpc("common", "authenticate", self.context.settings["user"], {})
        match answer.object().get("result"):
            case False:
                raise hub.Denied("Odoo refuses user or API key.")
            case int(user) if user is not True:
                return user
        raise answer.broken("it names no user")

    def authorize(self) -> Mapping[str, str]:
        database = self.context.settings["db"]
        headers = {"X-Odoo-Database": database} if database else {}
        return {} if self._is_rpc else {"Authorization": f"bearer {self.grant.token()}", **headers}

    @staticmethod
    def failure(answer: Answer) -> hub.AdapterError | None:
        """Never Uncertain: Odoo rolls back a call that raises."""
        body = answer.body
        match value_at(body, "result") or value_at(body, "error", "data") or body:
            case {"ids": False, "messages": list(messages)}:
                errors = [one for one in objects_in(messages) if one.get("type") == "error"]
                for text in [text_of(one.get("message")) for one in errors]:
                    if re.search(_BUSY, text):
                        return _busy(f"Odoo is busy with the same records: {_shown(text)}")
                return NotLoaded(errors)
            case {"name": str(name), "message": str(message), "arguments": _}:
                kind = name.rpartition(".")[2]
                for pattern, error, words in _ERRORS:
                    if re.search(pattern, f"{kind}: {message}", re.DOTALL):
                        return error(f"{words.format(kind)}: {_shown(message)}")
            case _ if answer.status in (404, 410):
                return hub.BadConfig(_NO_INTERFACE)
            case _ if answer.status == 409:
                # A lock, told without its class.
                return _busy("Odoo is busy with the same records.")
        return None


def _timestamp(seconds: float) -> str:
    """Return a time as Odoo writes it, in whole seconds: it shows no parts of one."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _addresses(text: str) -> list[str]:
    return [part for part in _ADDRESS_ENDS.split(text) if "@" in part]


def _corrected(contact: hub.Contact, properties: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties to write: of several addresses, the first is the one that changes."""
    present, email = contact.properties.get("email", ""), properties.get("email", "")
    first, *others = _addresses(present) or [""]
    if not email or not others:
        return properties
    rest = [other for other in others if other.lower() != email.lower()]
    text = present.replace(first, email, 1) if rest == others else "; ".join([email, *rest])
    return {**properties, "email": text}


class NotLoaded(Rejected):
    """Odoo refuses `rows` (indexes; empty if unknown); the problems have Odoo's field names."""

    def __init__(self, errors: Sequence[Mapping[str, Any]]) -> None:
        fields = [text_of(one.get("field") or "") for one in errors]
        texts = [_shown(text_of(one.get("message"))) for one in errors]
        named = [Problem(name, text) for name, text in zip(fields, texts, strict=True) if name]
        super().__init__(named, "" if named else f"Odoo does not take this: {' '.join(texts)}")
        self.rows = {one["record"] for one in errors if isinstance(one.get("record"), int)}


def _shown(message: str) -> str:
    return " ".join(message.split())[:300].rstrip(".")
