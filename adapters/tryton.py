"""The adapter for Tryton 8.2: parties, sale opportunities and tasks, over its JSON-RPC.

Tryton runs each call in one transaction: an error that it reports itself has written nothing. The
emails and phones of a party are records of their own, its contact mechanisms. The hub's mark is an
identifier of a party, and the last line of the comment of an opportunity or task.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar
from urllib.parse import quote

from adapters.tryton_rpc import Rpc, choices, escaped, field_of, to_json, to_text
from crmhub import adapter as hub
from crmhub.adapter import Contact, Linked, Problem, Rejected, Saved, Setting, Written
from crmhub.adapter.defined import Create, DefinedAdapter
from crmhub.adapter.emails import free_email
from crmhub.adapter.fields import Field, Fields
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.oauth import KEPT
from crmhub.adapter.phones import notations, same
from crmhub.adapter.places import PLACES

PARTY, DEAL, TASK = "party.party", "sale.opportunity", "project.work"
_MODELS: Mapping[hub.Kind, str] = {"contacts": PARTY, "deals": DEAL, "tickets": TASK}
_OURS: Mapping[str, Mapping[str, str]] = {
    PARTY: {"mobile": "mobilephone"},
    DEAL: {"description": "dealname", "end_date": "closedate", "employee": "hubspot_owner_id"},
    TASK: {"name": "subject", "comment": "content"},
}
# What the adapter sets, and what would hide a record.
_HIDDEN = {"active", "company", "id", "parent", "party", "path", "state", "status", "type"}
# Types of contact mechanisms; the first of each is a property of the party.
_MECHANISMS: dict[str, hub.PropertyType] = {"email": "email", "website": "url"}
_MECHANISMS |= dict.fromkeys(("phone", "mobile", "fax"), "phone")
_MECHANISM_FIELDS = [f"contact_mechanisms.{name}" for name in ("type", "value", "value_compact")]
_PHONES, _EMAILS = ("phone", "mobilephone"), "emails"
# Tryton makes an opportunity a lead; these buttons move it on.
_BUTTONS = {"opportunity": "opportunity", "lost": "lost", "cancelled": "cancel"}
_ID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_LARGEST, _MERGES = 2**31 - 1, 10
_LABEL, _VALUE = re.compile(r'(?:for|the) field "([^"]*)"'), re.compile(r'The [a-z ]+ "')
_NO_COMPANY = "The user has no company in Tryton. Give it one."
_GROUPS = ("Sale Opportunity", "Project Administration")
_STEPS = (
    hub.Step("Create a user with a company, an employee and these groups:", codes=_GROUPS),
    hub.Step("For tickets, create a project in Projects > Works."),
)


@dataclass(frozen=True, slots=True)
class Status(hub.Choice):
    """A status of tasks; `progress` is what a task of this status has done of 1, if it is fixed."""

    progress: float = 0.0


class Definitions(Fields[Field]):
    types = (Field, Status)

    def __init__(self, rpc: Rpc, context: hub.Context) -> None:
        super().__init__(context, _MODELS)
        self._rpc, self._settings = rpc, context.settings

    def load_fields(self, kind: hub.Kind) -> Iterator[Field]:
        model = _MODELS[kind]
        held, ours = self._rpc.read(model, "fields_get", []), _OURS[model]
        types = _MECHANISMS if model == PARTY else {}
        for name in sorted(held.keys() - _HIDDEN):
            if field := field_of(held[name], ours.get(name, name), types.get(name)):
                yield field
        if model == PARTY:
            yield Field(_EMAILS, "All emails", "string", read_only=True, theirs=_EMAILS)

    def load_pipelines(self, kind: Linked) -> list[hub.Pipeline]:
        return self._load_states() if kind == "deals" else self._load_projects()

    def _load_states(self) -> list[hub.Pipeline]:
        states = choices(self._rpc.read(DEAL, "fields_get", ["state"]).get("state"))
        stages = [state for state in states if state.value in ("lead", *_BUTTONS)]
        return [hub.Pipeline("default", "Opportunities", tuple(stages))]

    def _load_projects(self) -> list[hub.Pipeline]:
        listed = self._settings["projects"].split(";")
        names = [name.strip() for name in listed if name.strip()]
        if not names:
            raise hub.Unsupported("Name a project in the setting Projects for tickets first.")
        domain = [["type", "=", "project"], ["name", "in", names]]
        ids = {one.get("name"): str(one["id"]) for one in self._rpc.search(TASK, domain, "name")}
        if unknown := [name for name in names if name not in ids]:
            reason = f"Tryton has no project {', '.join(unknown)} that the user may see"
            raise hub.BadConfig(reason, problems=[Problem("projects", reason)])
        told, of_tasks = ("name", "progress", "default", "sequence"), [["types", "in", ["task"]]]
        statuses = self._rpc.search("project.work.status", of_tasks, *told)
        statuses.sort(key=lambda one: (not one.get("default"), one.get("sequence") or 0))
        stages = tuple(
            Status(str(one["id"]), str(one.get("name")), one.get("progress") or 0.0)
            for one in statuses
        )
        return [hub.Pipeline(ids[name], name, stages) for name in names]

    def load_owners(self) -> list[hub.Owner]:
        return [
            hub.Owner(str(one["id"]), to_text(party.get("email")), to_text(one.get("rec_name")))
            for one in self._rpc.search("company.employee", [], "rec_name", "party.email")
            for party in [one.get("party.") or {}]
        ]


class TrytonAdapter(DefinedAdapter):
    title = "Tryton"
    record_pages = True
    whole_name = "name"
    email_names = ("email", _EMAILS)
    # A write waits for a lock as long as somebody holds it; Tryton ends none.
    under_way_s = 120.0
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("base_url", "Address", "url", "Of Tryton's server.", required=True),
        Setting("database", "Database", required=True),
        Setting("user", "User", help="The login of a user for the hub alone.", required=True),
        Setting("projects", "Projects for tickets", help="Their names, separated by semicolons."),
        Setting("password", "Password", secret=True, required=True),
        Setting(KEPT, "Session", secret=True, kept=True),
    )
    guides = (hub.Guide("In Tryton", _STEPS),)

    def __init__(self, context: hub.Context) -> None:
        super().__init__(context)
        self._rpc = Rpc(context, self.title)
        self.definitions: Definitions = Definitions(self._rpc, context)
        self.fitting = Fitting(self.definitions)

    def _values(self, kind: Written, fit: Mapping[str, str]) -> dict[str, Any]:
        return self.definitions.values(kind, fit, lambda one, text: to_json(one.their_type, text))

    @contextmanager
    def _writing(self, kind: Written, sent: Mapping[str, str]) -> Iterator[None]:
        """Name the property that a refusal of Tryton names by its label, or quotes."""
        try:
            yield
        except Rejected as exc:
            label, value = _LABEL.search(exc.message), _VALUE.match(exc.message)
            rest = exc.message[value.end() :] if value else ""
            fields = self.definitions.fields(kind).values()
            names = [one.name for one in fields if label and one.label == label[1]]
            names += [n for n, text in sent.items() if text and rest.startswith(f'{text}"')]
            raise Rejected([Problem(n, exc.message) for n in names[:1]], exc.message) from None

    def _create(self, kind: Written, sent: Mapping[str, str], values: Mapping[str, Any]) -> Saved:
        with self._writing(kind, sent):
            answer = self._rpc.call(_MODELS[kind], "create", [values])
        match answer.object().get("result"):
            case [int(record_id)]:
                return self._saved(_MODELS[kind], record_id)
        raise answer.broken("it names no id")

    def _saved(self, model: str, record_id: int) -> Saved:
        return Saved(str(record_id), "created", self._url(model, record_id))

    def _url(self, model: str, record_id: int) -> str:
        base, database = (self.context.settings[name] for name in ("base_url", "database"))
        return f"{base.rstrip('/')}/#{quote(database, safe='')}/model/{model}/{record_id}"

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return _ID.fullmatch(contact_id) is not None and int(contact_id) <= _LARGEST

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        types, numbers = ["email"] if email else ["phone", "mobile"], notations(phone)
        stored: list[Any] = ["OR", ["value", "in", numbers], ["value_compact", "in", numbers]]
        if email:
            stored = ["value", "ilike", escaped(email)]
        domain = [["contact_mechanisms", "where", [["type", "in", types], stored]]]
        for party in self._rpc.search(PARTY, domain, *self._to_read(names)):
            values = _mechanisms(party, *types).values()
            if any(v.lower() == email if email else same(phone, v) for v in values):
                return self._contact(party, names)
        return None

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        return self._contact(self._party(contact_id, *self._to_read(names)), names)

    def _to_read(self, names: Sequence[str]) -> list[str]:
        fields = self.definitions.fields("contacts")
        theirs = [fields[name].theirs for name in names if name in fields]
        return [*_MECHANISM_FIELDS, *(n for n in theirs if n not in {*_MECHANISMS, _EMAILS})]

    def _party(self, contact_id: str, *names: str) -> Mapping[str, Any]:
        """Return a party, or the one that it was merged into; raises NotFound for none."""
        party_id: Any = int(contact_id) if self.may_be_id(contact_id) else None
        for _ in range(_MERGES):
            domain = [["id", "=", party_id], ["active", "in", [True, False]]]
            told = [*names, "active", "replaced_by"]
            party = next(iter(self._rpc.search(PARTY, domain, *told) if party_id else ()), {})
            if party.get("active"):
                return party
            party_id = party.get("replaced_by")
        raise hub.NotFound(f"There is no contact {contact_id[:60]!r}")

    def _contact(self, party: Mapping[str, Any], names: Sequence[str]) -> Contact:
        fields, values = self.definitions.fields("contacts"), {}
        for name in (name for name in names if name in fields):
            theirs = fields[name].theirs
            if theirs == _EMAILS:
                values[name] = ";".join(_mechanisms(party, "email").values())
            elif theirs in _MECHANISMS:
                values[name] = next(iter(_mechanisms(party, theirs).values()), "")
            else:
                values[name] = to_text(party.get(theirs))
        return Contact(str(party["id"]), values, self._url(PARTY, party["id"]))

    def has_email(self, contact: Contact, email: str) -> bool:
        return email in contact.properties.get(_EMAILS, "").lower().split(";")

    def has_phone(self, contact: Contact, phone: str) -> bool:
        return any(same(phone, contact.properties.get(name, "")) for name in _PHONES)

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> hub.Changes:
        held, changed = contact.properties, super().changes(contact, properties).properties
        equal = {name for name in _PHONES if same(changed.get(name, ""), held.get(name, ""))}
        return hub.Changes({n: v for n, v in changed.items() if n not in equal})

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        values = self._values("contacts", self.fitting.fitted("contacts", properties))
        values = {name: value for name, value in values.items() if value is not None}
        if mark:
            values["identifiers"] = [["create", [{"code": mark}]]]
        # Tryton takes an email twice.
        with free_email(self, properties.get("email", "").strip()):
            return self._create("contacts", properties, values)

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        values = self._values("contacts", self.fitting.fitted("contacts", properties))
        party = self._party(contact_id, *_MECHANISM_FIELDS)
        actions = []
        for name in values.keys() & _MECHANISMS:
            actions += _mechanism_changes(party, name, values.pop(name) or "")
        if actions:
            values["contact_mechanisms"] = actions
        saved = self._saved(PARTY, party["id"])
        if not values:
            return replace(saved, outcome="unchanged")
        with self._writing("contacts", properties):
            answer = self._rpc.call(PARTY, "write", [party["id"]], values)
        if answer.object().get("result", answer) is not None:
            raise answer.broken("it does not say that it has written")
        return replace(saved, outcome="updated")

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        fit = self.fitting.fitted(kind, properties)
        pipeline, stage = (fit.pop(name) for name in PLACES[kind])
        preferences = self._rpc.preferences.get()
        if not preferences.get("company"):
            raise hub.BadConfig(_NO_COMPANY)
        values = self._values(kind, fit)
        values["party"] = self._party(contact_id)["id"]
        line = f"crmhub: {mark}" if mark else ""
        values["comment"] = "\n\n".join(filter(None, (values.get("comment"), line)))
        if kind == "tickets":
            values |= {"type": "task", "parent": int(pipeline), "status": int(stage)}
            values["progress"] = values.get("progress") or self._progress(stage)
        elif stage == "opportunity" and not {**preferences, **values}.get("employee"):
            raise Rejected([Problem("hubspot_owner_id", "this stage needs an owner, an employee")])
        saved = self._create(kind, properties, values)
        if kind == "deals":
            self._move(int(saved.id), stage)
        return saved

    def _progress(self, status: str) -> float | None:
        found = [one for project in self.pipelines("tickets") for one in project.stages]
        fixed = [one.progress for one in found if isinstance(one, Status) and one.value == status]
        return next(iter(fixed), None) or None

    def _move(self, deal_id: int, stage: str) -> None:
        """Move a new deal, which Tryton has made a lead; raises Uncertain if that fails."""
        if stage == "lead":
            return
        try:
            self._rpc.call(DEAL, _BUTTONS[stage], [deal_id]).object()["result"]
        except (hub.AdapterError, KeyError) as exc:
            raise hub.Uncertain(f"The deal is there, and may not be {stage} yet: {exc}") from None

    def find_create(self, create: Create) -> Saved | None:
        kind, mark, model = create.kind, create.mark, _MODELS[create.kind]
        domain: list[Any] = [["identifiers.code", "=", mark]]
        if kind != "contacts":
            try:
                party = self._party(create.contact_id)
            except hub.NotFound:
                return None
            domain = [["party", "=", party["id"]], ["comment", "ilike", f"%{escaped(mark)}%"]]
        for record in self._rpc.search(model, domain, *(["state"] if kind == "deals" else [])):
            if kind == "deals" and record.get("state") == "lead":
                self._move(record["id"], self.fitting.place(kind, create.sent)["dealstage"])
            return self._saved(model, record["id"])
        return None

    def check(self) -> None:
        settings, models = self.context.settings, [PARTY, DEAL]
        if not self._rpc.preferences.get(newer_than=0.0).get("company"):
            raise hub.BadConfig(_NO_COMPANY)
        if settings["projects"]:
            self.definitions.pipelines("tickets", newer_than=0.0)
            models.append(TASK)
        access = self._rpc.read("ir.model.access", "get_access", models)
        if missing := [model for model in models if not (access.get(model) or {}).get("create")]:
            raise hub.LacksRight(
                f"The user may not create {', '.join(missing)} in Tryton. Add it to the groups"
                f" {' and '.join(_GROUPS)}."
            )


def _mechanisms(party: Mapping[str, Any], *types: str) -> dict[int, str]:
    listed = party.get("contact_mechanisms.")
    if not isinstance(listed, list):
        raise hub.Unavailable("Tryton answered without the contact mechanisms of a party.")
    held = [one for one in listed if one.get("type") in types]
    # Compact is a phone in E.164, if Tryton has the library phonenumbers.
    return {one["id"]: str(one.get("value_compact") or one.get("value") or "") for one in held}


def _mechanism_changes(party: Mapping[str, Any], type_of: str, value: str) -> list[list[Any]]:
    held = _mechanisms(party, type_of)
    if not value:
        return [["delete", list(held)]] if held else []
    if value in held.values():
        return []
    new = {"type": type_of, "value": value}
    return [["write", [next(iter(held))], new]] if held else [["create", [new]]]
