"""The helper createTask: create a task for a contact, such as to call back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Described, Problem, hold_back_update
from crmhub.adapter.coercion import Listed, Misfit, coerced
from crmhub.errors import Semantic
from crmhub.helpers import dispatch
from crmhub.helpers.attempts import Attempt, Done, Mapped, crm_id_of
from crmhub.helpers.create_linked import ContactAction, not_found, require_possible_id
from crmhub.helpers.inputs import NOT_ONE, filled, usable
from crmhub.helpers.partial_writes import PartialWrite, refusal
from crmhub.hub import Hub
from crmhub.properties.kinds import CONTACTS
from crmhub.records.timeline import OWN, TASK, Added
from crmhub.translatable import named, translatable

PRIORITIES = ("LOW", "MEDIUM", "HIGH")
NAMES = ("subject", "due", "owner", "notes", "priority")
_DUE = Described("due", "due", "datetime")


def create_task(hub: Hub, account: Account, task: CreateTask, *, key: str) -> Done:
    """An equal task for the contact within a minute is created once, without another key.

    Raises NotFound for an unknown contact, and Semantic for a blank subject or a CRM without tasks.
    """
    require_possible_id(hub, account, task.contact_id)
    if "subject" not in task.properties:
        raise Semantic("properties.subject: it is missing; say what is to be done")
    subject = task.properties["subject"]
    if not isinstance(subject, str):
        raise Semantic(named("properties.subject", NOT_ONE))
    filled(subject, "properties.subject")
    return dispatch.run(hub, account, task, key=key)


@dataclass(frozen=True, slots=True)
class CreateTask(ContactAction):
    kind: ClassVar[str] = "createTask"
    record: ClassVar[contract.Kind] = "contacts"

    def mapped(self, account: Account) -> Mapped:
        good, refused = usable(self.properties)
        properties: dict[str, str] = {}
        for name, text in good.items():
            try:
                if text.strip() and (value := _in_task(name, text, account)):
                    properties[name] = value
            except Misfit as exc:
                refused.append(Problem(name, str(exc), exc.options))
        return Mapped(properties, tuple(refused))

    def check(self, account: Account, adapter: Adapter | None, mapped: Mapped) -> None:
        if adapter is not None and not adapter.can("create_task"):
            raise contract.Unsupported(
                translatable("The %(crm)s adapter cannot create tasks.", crm=adapter.title)
            )
        if "subject" not in mapped.properties:
            raise refusal(mapped.refused, translatable("A task needs a subject."))
        if account.switches.strict and mapped.refused:
            raise refusal(mapped.refused)

    def perform(self, at: Attempt) -> Done:
        self.check(at.account, at.adapter, at.mapped)
        contact_id = crm_id_of(at)
        # An adapter finds the task of an earlier attempt only once the CRM has it.
        hold_back_update(at.adapter, at.entry.written_at)
        strict = at.account.switches.strict
        partial = PartialWrite(
            at.mapped.properties, at.mapped.refused, strict=strict, places=("subject",)
        )
        while True:
            try:
                sent = _with_owner_id(at.adapter, partial.rest)
                saved = at.adapter.create_task(contact_id, sent, mark=at.entry.id)
                break
            except (contract.Rejected, contract.Conflict) as exc:
                partial.leave_out(exc)
            except contract.NotFound as exc:
                contact_id = _merged_into(at.adapter, contact_id, exc)
        own = {name: value for name, value in sent.items() if name != "notes"}
        connection_id = at.entry.connection_id if at.adapter.remote else OWN
        return Done(
            "created",
            contact_id=contact_id,
            record_id=saved.id,
            refused=(*partial.refused, *saved.refused),
            added=Added(
                connection_id,
                CONTACTS,
                contact_id,
                TASK,
                sent.get("notes", ""),
                at.entry.created_at,
                crm_id=saved.id if at.adapter.remote else "",
                properties=own,
            ),
        )


def _merged_into(adapter: Adapter, contact_id: str, exc: contract.NotFound) -> str:
    """Return the contact into which the CRM has merged this one; NotFound if it is gone."""
    try:
        found = adapter.get_contact(contact_id, [])
    except contract.NotFound as gone:
        raise not_found("contactId", gone.message) from gone
    if found.id == contact_id:
        raise not_found("contactId", exc.message) from exc
    return found.id


def _in_task(name: str, text: str, account: Account) -> str:
    if name not in NAMES:
        raise Misfit(translatable("a task has no such property"), NAMES)
    if isinstance(text, Listed):
        raise Misfit(NOT_ONE)
    if name == "due":
        return coerced(_DUE, text, account.switches.reading)
    if name == "priority" and text.strip().upper() not in PRIORITIES:
        reason = translatable("is none of %(options)s", options=", ".join(PRIORITIES))
        raise Misfit(reason, PRIORITIES)
    return text.strip().upper() if name == "priority" else text


def _with_owner_id(adapter: Adapter, properties: Mapping[str, str]) -> dict[str, str]:
    """Replace an owner's email address or name by the id; raises Rejected for an unknown owner."""
    owner = properties.get("owner", "").strip()
    if not owner or not adapter.can("owners"):
        return dict(properties)
    owners = adapter.owners()
    said = owner.casefold()
    found = [one for one in owners if one.id == owner] or [
        one for one in owners if said in (one.email.casefold(), one.name.casefold())
    ]
    if len(found) != 1:
        reason = translatable("is no owner of the CRM; send an id")
        if found:
            reason = translatable("names several owners; send an id")
        emails = tuple(one.email or one.id for one in owners[:20])
        raise contract.Rejected([Problem("owner", reason, emails)])
    return {**properties, "owner": found[0].id}
