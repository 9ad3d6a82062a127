"""What an account's CRM and the hub's own records can hold: properties, pipelines, owners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

import flask

from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, AdapterError, contract
from crmhub.api.http.authentication import hub
from crmhub.console.account import about, installed
from crmhub.console.blueprint import blueprint
from crmhub.console.pages import page
from crmhub.helpers.crm_connection import ask
from crmhub.properties.kinds import KINDS, Kind

T = TypeVar("T")
# Id and label, of the pipeline and of each of its stages.
_Pipeline = tuple[str, str, list[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Told:
    """What the CRM told, or in its words why it does not."""

    values: Sequence[object] = ()
    wrong: str = ""


@blueprint.get("/accounts/<client_id>/catalogue")
def catalogue(client_id: str) -> flask.Response:
    """Show the properties of one kind, its pipelines, and the owners, from the CRM or the hub."""
    shared = about(client_id)
    account, args = shared["account"], flask.request.args
    adapter = installed(account.connection.adapter)
    own_records = not adapter.error and not hub().registry.load(adapter.name).remote
    tells = not own_records and bool(adapter.features & {"describe", "pipelines", "owners"})
    kind = KINDS.get(args.get("kind", ""), KINDS["contacts"])
    of_crm = tells and args.get("of") != "hub"
    told = _of_crm(account, kind) if of_crm else _of_hub(account, kind)
    return page(
        "account/catalogue.html",
        **shared,
        adapter=adapter,
        own_records=own_records,
        tells=tells,
        of_crm=of_crm,
        kind=kind.name,
        kinds=list(KINDS),
        **told,
    )


def _of_crm(account: Account, kind: Kind) -> dict[str, Told | None]:
    def staged(crm: Adapter) -> list[_Pipeline]:
        return [
            (one.id, one.label, [(each.value, each.label) for each in one.stages])
            for one in crm.pipelines(cast(contract.Linked, kind.name))
        ]

    return {
        "properties": _told(account, lambda crm: crm.describe(cast(contract.Kind, kind.name))),
        "pipelines": _told(account, staged) if kind.pipeline else None,
        "owners": _told(account, lambda crm: crm.owners()),
    }


def _of_hub(account: Account, kind: Kind) -> dict[str, Told | None]:
    held = hub().records.catalogues.reload(account.id, kind)
    staged: list[_Pipeline] = [
        (one.id, one.label, [(each.id, each.label) for each in one.stages])
        for one in held.pipelines
    ]
    return {
        "properties": Told(tuple(held)),
        "pipelines": Told(staged) if kind.pipeline else None,
        "owners": None,
    }


def _told(account: Account, question: Callable[[Adapter], Sequence[T]]) -> Told:
    try:
        return Told(ask(hub(), account, question))
    except AdapterError as exc:
        return Told(wrong=exc.message)
