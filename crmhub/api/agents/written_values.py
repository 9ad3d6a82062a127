"""Checks of the property values that agents write.

A bot's unknown property is defined as it comes; a model may have made the name up, so an agent's is
refused with the names that are meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crmhub.adapter import Problem
from crmhub.api.agents.agent import Agent
from crmhub.errors import Semantic, listed
from crmhub.helpers.read_crm import is_remote
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import CONTACTS, Kind

Sent = Mapping[str, str | None]
# The whole name, which helpers split.
_NAME = "name"
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Values:
    known: dict[str, str | None]
    refused: list[Problem]


def split_known(agent: Agent, kind: Kind, sent: Sent) -> Values:
    """Another CRM checks its properties itself. Raises Semantic with all problems if the account's
    switch `strict` is on."""
    if is_remote(agent.hub, agent.account) and kind.name != "companies":
        return Values(dict(sent), [])
    catalogue = agent.hub.records.catalogue(agent.account, kind)
    define = agent.account.switches.auto_define_properties
    extra = {_NAME} if kind is CONTACTS else set()
    known = {
        name: value
        for name, value in sent.items()
        if define or name in extra or catalogue.get(name) is not None
    }
    refused = [Problem(name, _unknown(catalogue, name)) for name in sent if name not in known]
    if refused and agent.account.switches.strict:
        raise Semantic(listed([(f"properties.{one.name}", one.reason) for one in refused]))
    return Values(known, refused)


def _unknown(catalogue: Catalogue, name: str) -> str:
    near = catalogue.nearest(name)
    meant = f"did you mean {' or '.join(near)}? " if near else ""
    return f"{catalogue.kind.name} have no such property; {meant}list_properties names them all"


def check_stage(agent: Agent, kind: Kind, sent: Sent) -> None:
    """Raises Semantic. Pipelines of another CRM are checked by the CRM."""
    if is_remote(agent.hub, agent.account) or not kind.pipeline:
        return
    catalogue = agent.hub.records.catalogue(agent.account, kind)
    pipeline, stage = sent.get(kind.pipeline) or "", sent.get(kind.stage) or ""
    pipelines = [one for one in catalogue.pipelines if pipeline in ("", one.id)]
    if not pipelines:
        ids = ", ".join(f"{one.id} ({one.label})" for one in catalogue.pipelines[:_SHOWN])
        raise Semantic(
            f"properties.{kind.pipeline}: there is no pipeline {pipeline[:60]!r}; send one of {ids}"
        )
    if stage and not any(one.has(stage) for one in pipelines):
        ids = ", ".join(f"{one.id} ({one.label})" for one in pipelines[0].stages[:_SHOWN])
        raise Semantic(
            f"properties.{kind.stage}: pipeline {pipelines[0].id} has no stage {stage[:60]!r};"
            f" send one of {ids}"
        )
