"""The tools list_properties and list_pipelines."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from crmhub.api.agents.answers import FRAME, ROOM, Page, count_fitting, page, part_of, size
from crmhub.api.agents.tool import RESOURCE, Agent, Answer, Paged, Resource, Shown, Text, Tool
from crmhub.api.public.pipelines import pipeline_shown
from crmhub.api.public.properties import property_shown
from crmhub.errors import NotFound, shortened
from crmhub.helpers import read_crm
from crmhub.properties.kinds import COMPANIES, KINDS

# Options beside a property of a list; the argument `name` shows all.
_FEW = 20
_DESCRIPTION = 200


class ListProperties(Paged):
    resource: Resource = Field(description=RESOURCE)
    query: Text = Field(
        "",
        max_length=100,
        description="Only properties with this text in name, label or description.",
        examples=["status"],
    )
    name: str = Field(
        "",
        max_length=100,
        description="Only this property, with all its options.",
        examples=["lifecyclestage"],
    )


class OptionShown(Shown):
    value: str = ""
    label: str = ""


class PropertyShown(Shown):
    name: str
    label: str
    type: str
    description: str = ""
    required: bool = False
    unique: bool = False
    read_only: bool = Field(False, description="true: it cannot be written.")
    options: list[OptionShown] = Field(
        description="The values that can be written; any value if empty."
    )
    options_total: int = Field(0, description="There are so many; name shows all.")


class Properties(Page):
    results: list[PropertyShown]


@Tool("List properties", answers=Properties, kinds=list(KINDS))
def list_properties(agent: Agent, given: ListProperties) -> Answer:
    """List the properties that contacts, deals, companies or tickets have. Answers name, label,
    type, whether a value is required, and the options of a choice. Use it before you write or
    filter by a property whose name or options you do not know; write the value of an option, not
    its label. Send query to narrow the list, or name for one property with all its options. It does
    not show values of records: use get_record."""
    found: list[Answer] | None = None
    source = {"source": "copy" if agent.is_copied else "hub"}
    if given.resource != "companies" and agent.is_remote:
        described = read_crm.describe(agent.hub, agent.account, given.resource)
        if described is not None:
            source = {"source": agent.crm}
            rules = agent.account.connection.field_map.of(given.resource)
            found = [
                {
                    "name": rules.hub_name(one.name),
                    "label": one.label,
                    "type": one.type,
                    "required": one.required,
                    "readOnly": one.read_only,
                    "options": [{"value": each.value, "label": each.label} for each in one.options],
                }
                for one in described
            ]
    if found is None:
        if given.resource == "companies":
            source = agent.reach(COMPANIES)
        catalogue = agent.hub.records.catalogue(agent.account, KINDS[given.resource])
        found = [property_shown(one) for one in catalogue]
        for one in found:
            one["description"] = one["description"][:_DESCRIPTION]
    if given.name:
        named = next((one for one in found if one["name"] == given.name), None)
        if named is None:
            raise NotFound(
                f"name: {given.resource} have no property {shortened(given.name)!r}; call"
                " list_properties with query, or without name, to see the names."
            )
        shown = {**named, "options": [], "optionsTotal": len(named["options"])}
        room = ROOM - FRAME - size(shown)
        options, cursor = part_of(agent, given, named["options"], room)
        return page([{**shown, "options": options}], cursor, source)
    text = given.query.casefold()
    matching = [
        _with_few_options(one)
        for one in found
        if text in f"{one['name']}\n{one['label']}\n{one.get('description', '')}".casefold()
    ]
    return page(*part_of(agent, given, matching), source)


def _with_few_options(shown: Answer) -> Answer:
    options = shown["options"]
    if len(options) > _FEW or size(options) > ROOM // 4:
        few = options[: max(1, count_fitting(options[:_FEW], ROOM // 4))]
        return {**shown, "options": few, "optionsTotal": len(options)}
    return shown


class ListPipelines(Paged):
    resource: Literal["deals", "tickets"] = Field(description=RESOURCE)


class PipelineShown(Shown):
    id: str
    label: str
    stages: list[dict[str, Any]]


class Pipelines(Page):
    results: list[PipelineShown]


@Tool("List pipelines", answers=Pipelines, kinds=["deals", "tickets"])
def list_pipelines(agent: Agent, given: ListPipelines) -> Answer:
    """List the pipelines for deals or tickets. Answers their ids and labels with the stages in
    order. Use it before create_deal, create_ticket or set_properties name a pipeline or a stage:
    they take the ids, not the labels. New records start in the first stage of the first pipeline,
    so you need not name these. Contacts and companies have no pipelines."""
    stages: list[tuple[str, str, Answer]] | None = None
    source = {"source": "copy" if agent.is_copied else "hub"}
    if agent.is_remote:
        theirs = read_crm.pipelines(agent.hub, agent.account, given.resource)
        if theirs is not None:
            source = {"source": agent.crm}
            stages = [
                (one.id, one.label, {"id": stage.value, "label": stage.label})
                for one in theirs
                for stage in one.stages
            ]
    if stages is None:
        catalogue = agent.hub.records.catalogues.reload(agent.account.id, KINDS[given.resource])
        own = [pipeline_shown(one) for one in catalogue.pipelines]
        stages = [(one["id"], one["label"], stage) for one in own for stage in one["stages"]]
    # A pipeline's own id and label stand beside each of its stages at most once.
    shown, cursor = part_of(agent, given, stages)
    pipelines: dict[str, Answer] = {}
    for id, label, stage in shown:
        started = pipelines.setdefault(id, {"id": id, "label": label, "stages": []})
        started["stages"].append(stage)
    return page(list(pipelines.values()), cursor, source)
