"""The tools create_or_update_company, link_records and pick_agent."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import Field

from crmhub.api.agents import dry_runs
from crmhub.api.agents.answers import Written, refused_shown
from crmhub.api.agents.tool import (
    DRY_RUN,
    Agent,
    Answer,
    Arguments,
    PropertyValues,
    RecordId,
    Resource,
    Text,
    Tool,
    Writing,
)
from crmhub.api.agents.write_tools import WINDOW_MS, derived_key, queued, split_known
from crmhub.errors import BadRequest, Semantic, shortened
from crmhub.helpers import random_int
from crmhub.helpers.crm_records import Deferred
from crmhub.helpers.inputs import name_fault
from crmhub.operators import agent_writes
from crmhub.operators.agent_writes import host_of
from crmhub.properties.kinds import COMPANIES, KINDS


class CompanyOf(Arguments):
    domain: Text = Field(
        "",
        max_length=200,
        description="The domain of its website, by which a company is recognised.",
        examples=["example.com"],
    )
    name: Text = Field(
        "",
        max_length=500,
        description="The company's name. Without domain, a company is recognised by it.",
        examples=["Example Ltd"],
    )
    properties: PropertyValues = {}
    dry_run: bool = Field(False, description=DRY_RUN)


class CompanyWritten(Written):
    company_id: str = ""


@Tool(
    "Create or update a company",
    answers=CompanyWritten,
    kinds=["companies"],
    rights=("write",),
    destructive=True,
    idempotent=True,
)
def create_or_update_company(agent: Agent, given: CompanyOf) -> Answer:
    """Store a company: updates the one with this domain, or with this name where you have no
    domain, or creates one. Use it before link_records links people or deals to their company; you
    need not look for it first, and there is never a second company for one domain. Send the domain
    whenever you know it: do not make one up. Several companies of one name are refused: send the
    domain, or change one of them by set_properties. Answers the companyId, and in status whether it
    was created, updated or unchanged."""
    agent.reach(COMPANIES, "change")
    if own := [name for name in given.properties if name in ("domain", "name")]:
        raise BadRequest(f"properties.{own[0]}: send it as the argument {own[0]} instead.")
    domain = host_of(given.domain)
    if given.domain and not domain:
        raise Semantic(
            f"domain: {shortened(given.domain)!r} is no domain; send one such as example.com, or"
            " only the name."
        )
    if not domain and not given.name:
        raise BadRequest("domain: is missing; send the company's domain, or its name.")
    if fault := name_fault(given.name):
        raise Semantic(f"name: {fault}")
    known, refused = split_known(agent, COMPANIES, given.properties)
    if given.name:
        known["name"] = given.name
    if given.dry_run:
        return dry_runs.company(agent, domain, given.name, known, refused)
    try:
        record, status = agent_writes.save_company(
            agent.hub, agent.account, domain, given.name, known, by=agent.author
        )
    except Deferred as exc:
        return queued(exc)
    return {
        "status": status,
        "message": "Not everything was stored: see refused." if refused else "",
        "companyId": agent.shown_id(record.id, record.properties),
        "refused": refused_shown(refused),
    }


class LinkRecords(Arguments):
    resource: Resource = Field(description="The kind of the first record.")
    id: RecordId = Field(description="The first record's id.")
    to_resource: Resource = Field(description="The kind of the other record.")
    to_id: RecordId = Field(description="The other record's id.")
    remove: bool = Field(False, description="true: remove the link.")
    dry_run: bool = Field(False, description=DRY_RUN)


class Linked(Written):
    id: str = ""
    to_id: str = ""


@Tool(
    "Link two records",
    answers=Linked,
    kinds=list(KINDS),
    rights=("write",),
    destructive=True,
    idempotent=True,
)
def link_records(agent: Agent, given: LinkRecords) -> Answer:
    """Link two records, such as a deal and a company, or remove their link with remove; the link is
    seen from both ends. Use it when both records exist and you know their ids. Deals and tickets
    are linked to their contact when they are created: do not repeat that. Removing a link deletes
    neither record. The same call again answers unchanged."""
    kind, to = KINDS[given.resource], KINDS[given.to_resource]
    agent.reach(kind, "link")
    agent.reach(to, "link")
    first = agent.find(kind, given.id, "id")
    other = agent.find(to, given.to_id, "toId")
    shown = {"id": given.id, "toId": given.to_id}
    if (kind, first.id) == (to, other.id):
        raise Semantic(f"toId: {kind.singular} {given.id} cannot be linked to itself.")
    linked = other.id in first.associations.get(to.name, ())
    same, remove = linked is not given.remove, given.remove
    if given.dry_run:
        would = (
            f"remove the link of {kind.singular} {given.id} and {to.singular} {given.to_id}"
            if remove
            else f"link {kind.singular} {given.id} to {to.singular} {given.to_id}"
        )
        would = "change nothing" if same else would
        message = "Dry run: nothing was written."
        return {"status": "dryRun", "message": message, "wouldBe": would, **shown}
    if same:
        message = "They were not linked." if remove else "They were linked already."
        return {"status": "unchanged", "message": message, **shown}
    try:
        agent_writes.link(
            agent.hub, agent.account, kind, first.id, to, other.id, remove=remove, by=agent.author
        )
    except Deferred as exc:
        return queued(exc, **shown)
    return {"status": "updated", "message": "", **shown}


Bound = Annotated[int, Field(ge=-random_int.LARGEST, le=random_int.LARGEST)]


class PickAgent(Writing):
    min: Bound = Field(description="The smallest number.", examples=[1])
    max: Bound = Field(description="The largest number.", examples=[3])
    contact_id: RecordId = Field("", description="The contact for whom somebody is picked.")


class Picked(Written):
    value: int = 0
    text: str = ""


@Tool("Pick one of several people", answers=Picked, kinds=["contacts"], rights=("write",))
def pick_agent(agent: Agent, given: PickAgent) -> Answer:
    """Draw a whole number from min to max by the account's rotation, to pick the person who takes a
    lead: number your agents and send their range. Answers the number. Use it once for each lead,
    with its contactId: within the same ten minutes the same contact gets the same number, and
    always if the account's rotation is sticky. Without contactId each call draws the next number.
    It assigns nothing by itself: write the result with set_properties. Do not use it as a random
    source for anything else, since each call moves the rotation on."""
    random_int.check_range(agent.account, smallest=given.min, largest=given.max)
    if given.dry_run:
        return {
            "status": "dryRun",
            "message": "Dry run: no number was drawn.",
            "wouldBe": f"draw a number from {given.min} to {given.max}",
        }
    key = ""
    if given.idempotency_key or given.contact_id:
        # For a contact the key is the same for ten minutes of the clock.
        window = int(time.time() * 1000) // WINDOW_MS
        key = derived_key(agent, "pick_agent", given, window=window)
    value, again = agent_writes.pick(
        agent.hub,
        agent.account,
        smallest=given.min,
        largest=given.max,
        contact_id=given.contact_id,
        key=key,
        by=agent.author,
    )
    return {
        "status": "unchanged" if again else "ok",
        "message": "The number that the same call got before." if again else "",
        "value": value,
        "text": str(value),
    }
