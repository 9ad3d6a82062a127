"""The adapter for Tryton 8.2: parties, sale opportunities and tasks, over its JSON-RPC.

Tryton runs each call in one transaction: an error that it reports itself has written nothing. The
emails and phones of a party are records of their own, its contact mechanisms. The hub's mark is an
identifier of a party, and the last line of the comment of an opportunity or task. Tickets and the
hub's tasks are both tasks of projects, of different ones.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote

from adapters.tryton_rpc import CODECS, Rpc, choices, escaped, in_json
from crmhub import adapter as hub
from crmhub.adapter import Kind, Linked, Problem, Rejected, Saved, Setting
from crmhub.adapter.answers import parse_time
from crmhub.adapter.creates import Create
from crmhub.adapter.fields import Field
from crmhub.adapter.oauth import KEPT
from crmhub.adapter.phones import notations, same
from crmhub.adapter.table_adapter import TableAdapter
from crmhub.adapter.tables import Records, Row, Write
from crmhub.adapter.walks import Walk, all_of, fits, page_of

PARTY, DEAL, TASK = "party.party", "sale.opportunity", "project.work"
# What the adapter sets, and what would hide a record.
_HIDDEN = ("active", "company", "id", "party", "path", "type")
_PLACES = ("parent", "state", "status")
_CHANGED, _CREATED = "last_modified_at", "create_date"
# Records in a page of what changed; without their properties, ten times as many.
_PAGE = 500
# Types of contact mechanisms; the first of each is a property of the party.
_MECHANISMS: dict[str, hub.PropertyType] = {"email": "email", "website": "url"}
_MECHANISMS |= dict.fromkeys(("phone", "mobile", "fax"), "phone")
_MECHANISM_FIELDS = [f"contact_mechanisms.{name}" for name in ("type", "value", "value_compact")]
# All mechanisms of some types, as one property: its name, label, types, and what stands between.
_ALL = {
    "emails": ("All emails", ("email",), ";"),
    "phones": ("All phones", ("phone", "mobile"), "\n"),
}
# Tryton makes an opportunity a lead; these buttons move it.
_BUTTONS = {name: name for name in ("lead", "opportunity", "lost")} | {"cancelled": "cancel"}
_MARK = re.compile(r"(?:\n\n)?crmhub: \S+\Z")
_TASK = {"subject": "name", "notes": "comment"}
_MERGES = 10
_PIPELINE = "default"
_EITHER = ["active", "in", [True, False]]
_LABEL, _VALUE = re.compile(r'(?:for|the) field "([^"]*)"'), re.compile(r'The [a-z ]+ "')
_NO_COMPANY = "The user has no company in Tryton. Give it one."
_GROUPS = ("Sale Opportunity", "Project Administration")
_STEPS = (
    hub.Step("Create a user with a company, an employee and these groups:", codes=_GROUPS),
    hub.Step("For tickets, create a project in Projects > Works; for tasks, another one."),
)


@dataclass(frozen=True, slots=True)
class Status(hub.Choice):
    """A status of tasks; `progress` is what a task of this status has done of 1, if it is fixed."""

    progress: float = 0.0


class TrytonAdapter(TableAdapter):
    title = "Tryton"
    record_pages = True
    whole_name = "name"
    email_names = ("email", "emails")
    phone_names = ("phone", "mobilephone", "phones")
    # A write waits for a lock as long as somebody holds it; Tryton ends none.
    under_way_s = 120.0
    largest_id = 2**31 - 1
    reads_first = True
    shared_types = (Field, Status)
    untold_deletions = frozenset(("contacts", "deals", "tickets"))
    codecs = CODECS
    kinds: ClassVar = {
        "contacts": Records(
            PARTY,
            {"mobilephone": "mobile"},
            _MECHANISMS,
            (*_HIDDEN, *_PLACES),
            changed=_CHANGED,
            created=_CREATED,
        ),
        "deals": Records(
            DEAL,
            {
                "dealname": "description",
                "closedate": "end_date",
                "hubspot_owner_id": "employee",
                "dealstage": "state",
            },
            hidden=_HIDDEN,
            links={"contacts": "party"},
            changed=_CHANGED,
            created=_CREATED,
        ),
        "tickets": Records(
            TASK,
            {
                "subject": "name",
                "content": "comment",
                "hs_pipeline": "parent",
                "hs_pipeline_stage": "status",
            },
            dict.fromkeys(("parent", "status"), "enumeration"),
            _HIDDEN,
            links={"contacts": "party"},
            changed=_CHANGED,
            created=_CREATED,
        ),
    }
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("base_url", "Address", "url", "Of Tryton's server.", required=True),
        Setting("database", "Database", required=True),
        Setting("user", "User", help="The login of a user for the hub alone.", required=True),
        Setting("projects", "Projects for tickets", help="Their names, separated by semicolons."),
        Setting("tasks", "Project for tasks", help="Its name. Projects for tickets are others."),
        Setting("password", "Password", secret=True, required=True),
        Setting(KEPT, "Session", secret=True, kept=True),
    )
    guides = (hub.Guide("In Tryton", _STEPS),)

    def __init__(self, context: hub.Context) -> None:
        super().__init__(context)
        self._rpc = Rpc(context, self.title)

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        if settings["tasks"].strip() in filter(None, _listed(settings["projects"])):
            return Problem("tasks", "Tasks in a project for tickets are tickets; name another one.")
        return ""

    def page(self, kind: hub.Kind, record_id: str) -> str:
        base, database = (self.context.settings[name] for name in ("base_url", "database"))
        model = self.kinds[kind].path
        return f"{base.rstrip('/')}/#{quote(database, safe='')}/model/{model}/{record_id}"

    def find(self, by: str, values: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        for value in values:
            types, numbers = ["email"], notations(value)
            stored: list[Any] = ["value", "ilike", escaped(value)]
            if by == "phone":
                types = ["phone", "mobile"]
                stored = ["OR", ["value", "in", numbers], ["value_compact", "in", numbers]]
            domain = [["contact_mechanisms", "where", [["type", "in", types], stored]]]
            yield from self._rpc.search(PARTY, domain, *self._to_read(names))

    def read(self, contact_id: str, names: Sequence[str]) -> Row:
        """Return a party, or the one that it was merged into."""
        party_id: Any = int(contact_id)
        for _ in range(_MERGES):
            domain = [["id", "=", party_id], _EITHER]
            told = [*self._to_read(names), "active", "replaced_by"]
            party = next(iter(self._rpc.search(PARTY, domain, *told) if party_id else ()), {})
            if party.get("active"):
                return party
            party_id = party.get("replaced_by")
        raise hub.NotFound(f"There is no contact {contact_id[:60]!r}")

    def _to_read(self, names: Sequence[str]) -> list[str]:
        theirs = self.theirs("contacts", names) if names else []
        return [*_MECHANISM_FIELDS, *(n for n in theirs if n not in {*_MECHANISMS, *_ALL})]

    # A copy.

    def seconds(self, value: Any) -> float:
        return parse_time(CODECS["timestamp"].read(value))

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> hub.ChangedPage:
        """Walk by id. Parties without `active`, and tasks that moved away, are told as deleted."""
        self.check_kind(kind)
        walk, asked, own = Walk.of(since), time.time(), self._domain(kind)
        domain, most = own, _PAGE if names else 10 * _PAGE
        if walk.since:
            changed: list[Any] = [_CHANGED, ">=", in_json(walk.changed_after)]
            domain = [changed]
            if kind == "contacts":
                # Emails and phones may change without their party. Tryton hides records without
                # `active` from each list of terms that does not name it.
                mechanisms = ["contact_mechanisms", "where", [changed, _EITHER]]
                domain = [["OR", changed, mechanisms, ["active", "in", []]], _EITHER]
        last = int(walk.cursor or 0)
        rows, more = page_of(partial(self._rows, kind, domain, names, last), most)
        gone = {row["id"]: row.get("replaced_by") for row in rows if not fits(row, own)}
        page = walk.page(
            [self.to_record(kind, row, names) for row in rows if row["id"] not in gone],
            str(rows[-1]["id"]) if more else "",
            asked=asked + self._rpc.http.clock_ahead,
            deleted=[str(id) for id, into in gone.items() if not into],
        )
        return replace(page, merged={str(id): str(into) for id, into in gone.items() if into})

    def read_several(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        domain = [["id", "in", [*map(int, ids)]], *self._domain(kind)]
        return all_of(partial(self._rows, kind, domain, names), _PAGE)

    def _domain(self, kind: Kind) -> list[Any]:
        """Return what is true of each record of a kind, for `fits`."""
        if kind != "tickets":
            return [["active", "=", True]] if kind == "contacts" else []
        projects = [int(one.id) for one in self.definitions.pipelines("tickets")]
        return [["type", "=", "task"], ["parent", "in", projects]]

    def _rows(
        self, kind: Kind, domain: list[Any], names: Sequence[str], last: int, most: int
    ) -> list[Row]:
        """Return the first records after the id `last`, with their times and links."""
        if kind == "contacts":
            asked = [*(self._to_read(names) if names else ()), "active", "replaced_by"]
        else:
            theirs = self.theirs(kind, names)
            asked = [*(name for name in theirs if name != "pipeline"), "party"]
            asked += ["state", "employee"] if kind == "deals" else ["type", "parent"]
        told = {*asked, _CHANGED, _CREATED}
        return self._rpc.search(
            self.kinds[kind].path, [["id", ">", last], *domain], *told, most=most
        )

    def text(self, field: Field, row: Row) -> str:
        if field.theirs == "pipeline":
            return _PIPELINE
        if field.theirs == "comment":
            return _MARK.sub("", super().text(field, row))
        if field.theirs in _ALL:
            _, types, between = _ALL[field.theirs]
            return between.join(_mechanisms(row, *types).values())
        if field.theirs in _MECHANISMS:
            return next(iter(_mechanisms(row, field.theirs).values()), "")
        return super().text(field, row)

    def changes(self, contact: hub.Contact, properties: Mapping[str, str]) -> hub.Changes:
        held, changed = contact.properties, super().changes(contact, properties).properties
        phones = ("phone", "mobilephone")
        equal = {name for name in phones if same(changed.get(name, ""), held.get(name, ""))}
        return hub.Changes({n: v for n, v in changed.items() if n not in equal})

    def before_write(self, write: Write) -> None:
        values = write.values
        if write.kind != "contacts":
            self._place(write)
        elif write.record_id:
            actions = []
            for name in values.keys() & _MECHANISMS:
                actions += _mechanism_changes(write.contact, name, values.pop(name) or "")
            values |= {"contact_mechanisms": actions} if actions else {}
        elif write.mark:
            values["identifiers"] = [["create", [{"code": write.mark}]]]

    def _place(self, write: Write) -> None:
        values, preferences, was = write.values, self._rpc.preferences.get(), write.contact
        if not write.record_id:
            if not preferences.get("company"):
                raise hub.BadConfig(_NO_COMPANY)
            line = f"crmhub: {write.mark}" if write.mark else ""
            values["comment"] = "\n\n".join(filter(None, (values.get("comment"), line)))
            values |= {"party": was["id"]} if was else {}
            values |= {"type": "task"} if write.kind == "tickets" else {}
            was = preferences
        values.pop("pipeline", None)
        state, status = values.get("state"), values.get("status")
        if status and (progress := self._progress(str(status))):
            values["progress"] = values.get("progress") or progress
        if state == "opportunity" and not {**was, **values}.get("employee"):
            raise Rejected([Problem("hubspot_owner_id", "this stage needs an owner, an employee")])

    def _progress(self, status: str) -> float | None:
        found = [one for project in self.pipelines("tickets") for one in project.stages]
        fixed = [one.progress for one in found if isinstance(one, Status) and one.value == status]
        return next(iter(fixed), None) or None

    def send(self, write: Write) -> Row:
        """Name the property that a refusal of Tryton names by its label, or quotes."""
        record, model = write.contact, self.kinds[write.kind].path
        values = {name: value for name, value in write.values.items() if name != "state"}
        try:
            if write.record_id:
                if values:
                    self._change(model, "write", record["id"], values)
                return record
            return {"id": self._create(model, values)}
        except Rejected as exc:
            label, value = _LABEL.search(exc.message), _VALUE.match(exc.message)
            rest = exc.message[value.end() :] if value else ""
            fields = self.definitions.fields(write.kind).values()
            names = [one.theirs for one in fields if label and one.label == label[1]]
            names += [n for n, text in write.sent.items() if text and rest.startswith(f'{text}"')]
            raise Rejected([Problem(n, exc.message) for n in names[:1]], exc.message) from None

    def _create(self, model: str, values: Mapping[str, Any]) -> str:
        answer = self._rpc.call(model, "create", [values])
        match answer.object().get("result"):
            case [int(record_id)]:
                return str(record_id)
        raise answer.broken("it names no id")

    def _change(self, model: str, method: str, record_id: Any, *values: Any) -> None:
        answer = self._rpc.call(model, method, [record_id], *values)
        if answer.object().get("result", answer) is not None:
            raise answer.broken("it does not say that it has written")

    def delete(self, kind: Kind, record_id: str) -> None:
        """Deactivate a party. Other records are deleted, opportunities once they are cancelled."""
        row, model = self.existing(kind, record_id), self.kinds[kind].path
        if kind == "contacts":
            return self._change(model, "write", row["id"], {"active": False})
        if row.get("state") in ("lead", "opportunity"):
            self._moved(self.saved(kind, row, "updated"), "cancelled")
        return self._change(model, "delete", row["id"])

    def add_note(
        self, kind: hub.Written, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        """Tryton dates a note itself, by its creation."""
        self.check_kind(kind)
        self.check_id(record_id)
        self.existing(kind, record_id)
        resource = f"{self.kinds[kind].path},{record_id}"
        domain = [["resource", "=", resource], ["message", "ilike", f"%{escaped(mark)}"]]
        for note in self._rpc.search("ir.note", domain) if mark else ():
            return Saved(str(note["id"]), "created")
        message = f"{text}\n\ncrmhub: {mark}" if mark else text
        values = {"resource": resource, "message": message}
        return Saved(self._create("ir.note", values), "created")

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Tryton's tasks have a name and a comment, and neither date, person nor priority."""
        given = {name: text for name, text in properties.items() if text}
        if unknown := given.keys() - _TASK.keys():
            raise Rejected([Problem(n, "Tryton's tasks have no such property") for n in unknown])
        name = self.context.settings["tasks"].strip()
        if not name:
            raise hub.Unsupported("Name a project in the setting Project for tasks first.")
        party = self._contact_to_write(contact_id)
        domain = [["type", "=", "task"], ["comment", "ilike", f"%{escaped(mark)}%"]]
        for task in self._rpc.search(TASK, domain) if mark else ():
            return Saved(str(task["id"]), "created")
        if not (project := self._projects(name).get(name)):
            raise hub.Unsupported(f"Tryton has no project {name} that the user may see.")
        values: dict[str, Any] = {_TASK[name]: text for name, text in given.items()}
        values |= {"name": " ".join(values["name"].split()), "parent": int(project)}
        write = Write("tickets", properties, mark, contact=party, values=values)
        self._place(write)
        try:
            return Saved(str(self.send(write)["id"]), "created")
        except Rejected as exc:
            ours = {theirs: name for name, theirs in _TASK.items()}
            exc.rename(lambda name: ours.get(name, name))
            raise

    def after_write(self, write: Write, saved: Saved) -> Saved:
        stage = write.values.get("state")
        if not stage or stage == (write.contact.get("state") if write.record_id else "lead"):
            return saved
        return self._moved(saved, stage)

    def _moved(self, saved: Saved, stage: str) -> Saved:
        """Move a deal, which Tryton makes a lead; raises Uncertain if that fails."""
        try:
            self._rpc.call(DEAL, _BUTTONS[stage], [int(saved.id)]).object()["result"]
        except Rejected as exc:
            return replace(saved, refused=(Problem("dealstage", exc.message),))
        except (hub.AdapterError, KeyError) as exc:
            raise hub.Uncertain(f"The deal is there, and may not be {stage} yet: {exc}") from None
        return saved

    def find_create(self, create: Create) -> Saved | None:
        kind, mark, more = create.kind, create.mark, ["state"] if create.kind == "deals" else []
        domain: list[Any] = [["identifiers.code", "=", mark]]
        if kind != "contacts":
            domain = [["comment", "ilike", f"%{escaped(mark)}%"]]
        if create.contact_id:
            try:
                domain.append(["party", "=", self._contact_to_write(create.contact_id)["id"]])
            except hub.NotFound:
                return None
        for record in self._rpc.search(self.kinds[kind].path, domain, *more):
            saved = self.saved(kind, record, "created")
            stage = self.fitting.place(kind, create.sent)["dealstage"] if more else "lead"
            is_left = record.get("state") == "lead" != stage
            return self._moved(saved, stage) if is_left else saved
        return None

    def load_fields(self, kind: hub.Kind) -> Iterator[Field | None]:
        held = self._rpc.read(self.kinds[kind].path, "fields_get", [])
        for theirs, told in sorted(held.items()):
            match told:
                case {"type": str(type), "string": str(label)}:
                    fixed = bool(told.get("readonly")) and theirs != "state"
                    yield self.field(kind, theirs, label, type, choices(told), read_only=fixed)
        for name, (label, *_) in _ALL.items() if kind == "contacts" else ():
            yield Field(name, label, "text", read_only=True, theirs=name, their_type="text")
        if kind == "deals":
            yield Field(
                "pipeline", "Pipeline", "enumeration", theirs="pipeline", their_type="selection"
            )

    def load_pipelines(self, kind: Linked) -> list[hub.Pipeline]:
        if kind == "tickets":
            return self._load_projects()
        states = choices(self._rpc.read(DEAL, "fields_get", ["state"]).get("state"))
        stages = tuple(state for state in states if state.value in _BUTTONS)
        return [hub.Pipeline(_PIPELINE, "Opportunities", stages)]

    def _load_projects(self) -> list[hub.Pipeline]:
        names = _listed(self.context.settings["projects"])
        if not names:
            raise hub.Unsupported("Name a project in the setting Projects for tickets first.")
        ids = self._projects(*names)
        _require(names, ids, "projects")
        told, of_tasks = ("name", "progress", "default", "sequence"), [["types", "in", ["task"]]]
        statuses = self._rpc.search("project.work.status", of_tasks, *told)
        statuses.sort(key=lambda one: (not one.get("default"), one.get("sequence") or 0))
        stages = tuple(
            Status(str(one["id"]), str(one.get("name")), one.get("progress") or 0.0)
            for one in statuses
        )
        return [hub.Pipeline(ids[name], name, stages) for name in names]

    def _projects(self, *names: str) -> dict[str, str]:
        domain = [["type", "=", "project"], ["name", "in", names]]
        found = self._rpc.search(TASK, domain, "name")
        return {str(one.get("name")): str(one["id"]) for one in found}

    def load_owners(self) -> list[hub.Owner]:
        return [
            hub.Owner(str(one["id"]), str(party.get("email") or ""), str(one.get("rec_name") or ""))
            for one in self._rpc.search("company.employee", [], "rec_name", "party.email")
            for party in [one.get("party.") or {}]
        ]

    def check(self) -> None:
        settings, models = self.context.settings, [PARTY, DEAL]
        if not self._rpc.preferences.get(newer_than=0.0).get("company"):
            raise hub.BadConfig(_NO_COMPANY)
        if settings["projects"]:
            self.definitions.pipelines("tickets", newer_than=0.0)
        if tasks := settings["tasks"].strip():
            _require([tasks], self._projects(tasks), "tasks")
        if tasks or settings["projects"]:
            models.append(TASK)
        access = self._rpc.read("ir.model.access", "get_access", models)
        if missing := [model for model in models if not (access.get(model) or {}).get("create")]:
            raise hub.LacksRight(
                f"The user may not create {', '.join(missing)} in Tryton. Add it to the groups"
                f" {' and '.join(_GROUPS)}."
            )


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.split(";") if name.strip()]


def _require(names: Sequence[str], found: Mapping[str, str], setting: str) -> None:
    if unknown := [name for name in names if name not in found]:
        reason = f"Tryton has no project {', '.join(unknown)} that the user may see"
        raise hub.BadConfig(reason, problems=[Problem(setting, reason)])


def _mechanisms(party: Row, *types: str) -> dict[int, str]:
    listed = party.get("contact_mechanisms.")
    if not isinstance(listed, list):
        raise hub.Unavailable("Tryton answered without the contact mechanisms of a party.")
    held = [one for one in listed if one.get("type") in types]
    # Compact is a phone in E.164, if Tryton has the library phonenumbers.
    return {one["id"]: str(one.get("value_compact") or one.get("value") or "") for one in held}


def _mechanism_changes(party: Row, type_of: str, value: str) -> list[list[Any]]:
    held = _mechanisms(party, type_of)
    if not value:
        return [["delete", list(held)]] if held else []
    if value in held.values():
        return []
    new = {"type": type_of, "value": value}
    return [["write", [next(iter(held))], new]] if held else [["create", [new]]]
