from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from crmhub.adapter import Described
from crmhub.api.agents import cursors, ids
from crmhub.api.agents import schemas as s
from crmhub.api.agents.agent import Agent
from crmhub.api.agents.fitting import FRAME, ROOM, count_fitting, size
from crmhub.api.agents.tool import Answer, Arguments, Tool
from crmhub.errors import NotFound
from crmhub.helpers import read_crm
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import KINDS

# Options beside a property of a list; the argument `name` shows all.
_FEW = 20
_DESCRIPTION = 200


def _list_properties(agent: Agent, arguments: Arguments) -> Answer:
    kind = KINDS[arguments["resource"]]
    defined, source = None, "hub"
    if kind.name != "companies" and read_crm.is_remote(agent.hub, agent.account):
        defined = read_crm.describe(agent.hub, agent.account, kind.name)  # type: ignore[arg-type]
        source = ids.source(agent, remote=True)
    if defined is None:
        catalogue = agent.hub.records.catalogue(agent.account, kind)
        found, source = [_own(prop) for prop in catalogue], "hub"
    else:
        rules = agent.account.connection.field_map.of(kind.name)  # type: ignore[arg-type]
        found = [_theirs(one, rules.hub_name(one.name)) for one in defined]
    state = cursors.state_of(agent, "list_properties", arguments)
    start = state[0] if state else 0
    if name := arguments.get("name"):
        items = _one(found, name, kind.name)
        shown, end = _options_part(items, start)
        more = end < len(items["options"])
    else:
        wanted = _matching(found, arguments.get("query", ""))
        listed = [_with_few_options(one) for one in wanted]
        count = max(1, count_fitting(listed[start:], ROOM - FRAME))
        shown, end = listed[start : start + count], start + count
        more = end < len(listed)
    cursor = cursors.seal(agent, "list_properties", arguments, [end]) if more else ""
    return {"results": shown, "cursor": cursor, "hasMore": more, "source": source}


def _own(prop: Property) -> dict[str, Any]:
    return {
        "name": prop.name,
        "label": prop.label,
        "type": prop.type,
        **({"description": prop.description[:_DESCRIPTION]} if prop.description else {}),
        "required": prop.required,
        "unique": prop.unique,
        "readOnly": prop.read_only,
        "options": [{"value": one.value, "label": one.label} for one in prop.options],
    }


def _theirs(one: Described, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "label": one.label,
        "type": one.type,
        "required": one.required,
        "readOnly": one.read_only,
        "options": [{"value": each.value, "label": each.label} for each in one.options],
    }


def _matching(found: Iterable[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    wanted = text.casefold().strip()
    return [
        one
        for one in found
        if wanted in f"{one['name']}\n{one['label']}\n{one.get('description', '')}".casefold()
    ]


def _with_few_options(prop: dict[str, Any]) -> dict[str, Any]:
    options = prop["options"]
    if len(options) > _FEW or size(options) > ROOM // 4:
        few = options[: max(1, count_fitting(options[:_FEW], ROOM // 4))]
        return {**prop, "options": few, "optionsTotal": len(options)}
    return prop


def _one(found: Sequence[dict[str, Any]], name: str, kind: str) -> dict[str, Any]:
    for one in found:
        if one["name"] == name:
            return one
    raise NotFound(
        f"name: {kind} have no property {name[:60]!r}; call list_properties with query, or without"
        " name, to see the names."
    )


def _options_part(prop: dict[str, Any], start: int) -> tuple[list[dict[str, Any]], int]:
    options = prop["options"]
    frame = {**prop, "options": [], "optionsTotal": len(options)}
    count = count_fitting(options[start:], ROOM - FRAME - size(frame))
    end = start + max(count, 1)
    return [{**frame, "options": options[start:end]}], end


_OPTION = {
    "type": "object",
    "properties": {"value": {"type": "string"}, "label": {"type": "string"}},
}
_PROPERTY: Mapping[str, s.Shape] = {
    "name": {"type": "string"},
    "label": {"type": "string"},
    "type": {"type": "string"},
    "description": {"type": "string"},
    "required": {"type": "boolean"},
    "unique": {"type": "boolean"},
    "readOnly": {"type": "boolean", "description": "true: it cannot be written."},
    "options": {
        "type": "array",
        "items": _OPTION,
        "description": "The values that can be written; any value if empty.",
    },
    "optionsTotal": {"type": "integer", "description": "There are so many; name shows all."},
}
LIST_PROPERTIES = Tool(
    name="list_properties",
    title="List properties",
    description=(
        "List the properties that contacts, deals, companies or tickets have. Answers name, label,"
        " type, whether a value is required, and the options of a choice. Use it before you write"
        " or filter by a property whose name or options you do not know; write the value of an"
        " option, not its label. Send query to narrow the list, or name for one property with all"
        " its options. It does not show values of records: use get_record."
    ),
    takes=s.takes(
        ("resource",),
        resource=s.resource(),
        query=s.text(
            "Only properties with this text in name, label or description.", "status", maxLength=100
        ),
        name=s.text("Only this property, with all its options.", "lifecyclestage", maxLength=100),
        cursor=s.CURSOR,
    ),
    answers=s.page(_PROPERTY, ["name", "label", "type", "options"], source=s.SOURCE),
    run=_list_properties,
    kinds=s.RESOURCES,
    chooses=True,
)

_Stage = tuple[dict[str, Any], dict[str, Any]]


def _list_pipelines(agent: Agent, arguments: Arguments) -> Answer:
    kind = KINDS[arguments["resource"]]
    stages, source = None, "hub"
    if read_crm.is_remote(agent.hub, agent.account):
        theirs = read_crm.pipelines(agent.hub, agent.account, kind.name)  # type: ignore[arg-type]
        if theirs is not None:
            source = ids.source(agent, remote=True)
            stages = [
                ({"id": one.id, "label": one.label}, {"id": each.value, "label": each.label})
                for one in theirs
                for each in one.stages
            ]
    if stages is None:
        stages = _own_stages(agent.hub.records.catalogues.reload(agent.account.id, kind))
    state = cursors.state_of(agent, "list_pipelines", arguments)
    start = state[0] if state else 0
    # A pipeline's own id and label stand beside each of its stages at most once.
    count = max(1, count_fitting(([*pair] for pair in stages[start:]), ROOM - FRAME))
    end = start + count
    cursor = ""
    if end < len(stages):
        cursor = cursors.seal(agent, "list_pipelines", arguments, [end])
    shown = _grouped(stages[start:end])
    return {"results": shown, "cursor": cursor, "hasMore": bool(cursor), "source": source}


def _own_stages(catalogue: Catalogue) -> list[_Stage]:
    return [
        (
            {"id": one.id, "label": one.label},
            {
                "id": stage.id,
                "label": stage.label,
                **({"probability": stage.probability} if stage.probability else {}),
                "closed": stage.closed,
            },
        )
        for one in catalogue.pipelines
        for stage in one.stages
    ]


def _grouped(stages: Sequence[_Stage]) -> list[dict[str, Any]]:
    pipelines: dict[str, dict[str, Any]] = {}
    for pipeline, stage in stages:
        pipelines.setdefault(pipeline["id"], {**pipeline, "stages": []})["stages"].append(stage)
    return list(pipelines.values())


LIST_PIPELINES = Tool(
    name="list_pipelines",
    title="List pipelines",
    description=(
        "List the pipelines for deals or tickets. Answers their ids and labels with the stages in"
        " order. Use it before"
        " create_deal, create_ticket or set_properties name a pipeline or a stage: they take the"
        " ids, not the labels. New records start in the first stage of the first pipeline, so you"
        " need not name these. Contacts and companies have no pipelines."
    ),
    takes=s.takes(("resource",), resource=s.resource(("deals", "tickets")), cursor=s.CURSOR),
    answers=s.page(
        {
            "id": {"type": "string"},
            "label": {"type": "string"},
            "stages": {"type": "array", "items": {"type": "object"}},
        },
        ["id", "label", "stages"],
        source=s.SOURCE,
    ),
    run=_list_pipelines,
    kinds=("deals", "tickets"),
    chooses=True,
)
