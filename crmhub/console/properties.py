"""The properties, pipelines and owners of a kind of record, in the account's CRM or in the hub."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import flask

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, AdapterError, Described
from crmhub.api.http.authentication import hub
from crmhub.console import list_filters
from crmhub.console.accounts import account_context, installed
from crmhub.console.pages import page
from crmhub.console.sessions import blueprint, needs
from crmhub.crm.connection import ask
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import KINDS, Kind

_PAGE_SIZE = 15

T = TypeVar("T")
# Id, label, and the stages as (id, label).
_Pipeline = tuple[str, str, list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class CrmAnswer:
    """A list as the CRM or the hub answered it; `wrong` is the message of a failed CRM."""

    values: Sequence[object] = ()
    wrong: str = ""


@blueprint.get("/accounts/<client_id>/properties")
@needs("data")
def properties(client_id: str) -> flask.Response:
    shared = account_context(client_id)
    account, args = shared["account"], flask.request.args
    adapter = installed(account.connection.adapter)
    own_records = not hub().registry.is_remote(adapter.name)
    has_crm_lists = not own_records and bool(adapter.features & {"describe", "pipelines", "owners"})
    kind = KINDS.get(args.get("kind", ""), KINDS["contacts"])
    from_crm = has_crm_lists and args.get("of") != "hub"
    sections = _read_crm(account, kind) if from_crm else _read_hub(account, kind)
    words = list_filters.text(args.get("q", "")).casefold()
    answer = sections["properties"]
    listed = cast("Sequence[Described | Property]", answer.values if answer else ())
    matches = [prop for prop in listed if words in f"{prop.name} {prop.label}".casefold()]
    number = list_filters.parse_id(args.get("page", "")) or 0
    start = number * _PAGE_SIZE
    return page(
        "account/properties.html",
        **shared,
        adapter=adapter,
        own_records=own_records,
        tells=has_crm_lists,
        of_crm=from_crm,
        kind=kind.name,
        kinds=list(KINDS),
        q=list_filters.text(args.get("q", "")),
        total=len(matches),
        shown_properties=matches[start : start + _PAGE_SIZE],
        page_size=_PAGE_SIZE,
        page_number=number,
        more=start + _PAGE_SIZE < len(matches),
        **sections,
    )


def _read_crm(account: Account, kind: Kind) -> dict[str, CrmAnswer | None]:
    def pipelines(crm: Adapter) -> list[_Pipeline]:
        return [
            (pipeline.id, pipeline.label, [(stage.value, stage.label) for stage in pipeline.stages])
            for pipeline in crm.pipelines(cast(contract.Linked, kind.name))
        ]

    return {
        "properties": _ask_crm(account, lambda crm: crm.describe(cast(contract.Kind, kind.name))),
        "pipelines": _ask_crm(account, pipelines) if kind.pipeline else None,
        "owners": _ask_crm(account, lambda crm: crm.owners()),
    }


def _read_hub(account: Account, kind: Kind) -> dict[str, CrmAnswer | None]:
    catalogue = hub().records.catalogues.reload(account.id, kind)
    pipelines: list[_Pipeline] = [
        (pipeline.id, pipeline.label, [(stage.id, stage.label) for stage in pipeline.stages])
        for pipeline in catalogue.pipelines
    ]
    return {
        "properties": CrmAnswer(tuple(catalogue)),
        "pipelines": CrmAnswer(pipelines) if kind.pipeline else None,
        "owners": None,
    }


def _ask_crm(account: Account, question: Callable[[Adapter], Sequence[T]]) -> CrmAnswer:
    try:
        return CrmAnswer(ask(hub(), account, question))
    except AdapterError as exc:
        return CrmAnswer(wrong=exc.message)
