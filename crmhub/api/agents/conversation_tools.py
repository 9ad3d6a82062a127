"""The tools that bring a conversation to the account's CRM: its note, and who takes the contact."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crmhub.api.agents import dry_runs
from crmhub.api.agents.answers import Written
from crmhub.api.agents.tool import RESOURCE, Agent, Answer, RecordId, Text, Tool, Writing
from crmhub.api.agents.write_tools import answer_for, require_contact, run_action
from crmhub.helpers.assign_owner import AssignOwner, assignment_of
from crmhub.helpers.notes import LONGEST, AddNote, read_note
from crmhub.properties.kinds import KINDS
from crmhub.teams.teams import find_name


class NoteFor(Writing):
    resource: Literal["contacts", "deals", "tickets"] = Field("contacts", description=RESOURCE)
    id: RecordId = Field(description="The record's id; of a contact the contactId.")
    text: Text = Field(
        min_length=1, max_length=LONGEST, description="Plain text.", examples=["Calls back."]
    )
    author: Text = Field("", max_length=200, description="Who says it.", examples=["Ada"])
    at: Text = Field(
        "", max_length=40, description="When; now by default.", examples=["2026-11-28T10:15:00Z"]
    )


class NoteWritten(Written):
    note_id: str = ""
    contact_id: str = ""


@Tool("Add a note", answers=NoteWritten, kinds=["contacts", "deals", "tickets"], rights=("write",))
def add_note(agent: Agent, given: NoteFor) -> Answer:
    """Add a note to a contact, deal or ticket in the account's CRM, such as what a person said. Use
    it to keep what no property holds. Do not use it for values that have a property: use
    set_properties. Notes cannot be read, changed or deleted here. Answers the noteId, or queued.
    The same call again within 10 minutes adds no second one."""
    text, type = read_note(given.text, "")
    note = AddNote(text, given.resource, given.id, type=type, at=given.at, author=given.author)
    if given.resource == "contacts":
        require_contact(agent, given.id, "id")
    elif not agent.is_remote or agent.is_copied:
        agent.find(KINDS[given.resource], given.id, "id")
    if given.dry_run:
        return dry_runs.planned(f"add a note to {given.resource[:-1]} {given.id}")
    done = run_action(agent, note, given, once="add_note")
    return answer_for(done, [], noteId=done.record_id, contactId=done.contact_id)


class OwnerFor(Writing):
    contact_id: RecordId = Field(
        description="As create_or_update_lead or find_contacts answered it."
    )
    team: Text = Field(
        "", max_length=200, description="The account's first by default.", examples=["Sales"]
    )
    keep: bool = Field(True, description="Whether a present owner who is in the team stays.")
    deal_id: RecordId = Field("", description="A deal that gets the owner, too.")


class OwnerAssigned(Written):
    contact_id: str = ""
    owner_id: str = ""
    owner_name: str = ""
    owner_email: str = ""
    reason: str = ""


@Tool("Assign an owner", answers=OwnerAssigned, kinds=["contacts"], rights=("write",))
def assign_owner(agent: Agent, given: OwnerFor) -> Answer:
    """Choose who takes a contact, from a team of the account by its hours, capacity and rotation,
    and set it as the contact's owner in the CRM. Use it once for each new lead. Do not use it to
    set a certain person: use set_properties with hubspot_owner_id. Answers the owner and the
    reason, or queued. The same call again within 10 minutes answers the same owner."""
    with agent.hub.database.reading() as connection:
        find_name(connection, agent.account, given.team)
    require_contact(agent, given.contact_id)
    action = AssignOwner(given.contact_id, given.team, given.keep, given.deal_id)
    if given.dry_run:
        return dry_runs.planned(f"assign an owner to contact {given.contact_id}")
    done = run_action(agent, action, given, once="assign_owner")
    chosen = assignment_of(agent.hub, agent.account, action, done)
    own = {"contactId": done.contact_id}
    if chosen is not None:
        own |= {"ownerId": chosen.owner_id, "ownerName": chosen.name, "ownerEmail": chosen.email}
        own["reason"] = chosen.reason
    return answer_for(done, [], **own)
