"""Apply a file that declares accounts, and export accounts to such a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from crmhub.accounts import accounts
from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds
from crmhub.accounts.field_maps import FieldMap
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.errors import Conflict, NotFound, Semantic
from crmhub.hub import Hub, in_transaction
from crmhub.operators.accounts import change_account
from crmhub.operators.accounts.accounts_file import Declared, table_text
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.crm import copy_plan, map_fields, set_crm
from crmhub.operators.crm.set_crm import Crm
from crmhub.operators.crm.switch_crm import Decision
from crmhub.operators.teams import change_team
from crmhub.settings import SettingsError
from crmhub.teams import teams

_NOT_SET = "not set"
Difference = tuple[str, Any, Any]
"""A difference of an account: the name of a value, the value before, and the value after."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`opened` is None for an existing account."""

    client_id: str
    opened: IssuedIds | None
    differences: tuple[Difference, ...]


def rehearse(
    hub: Hub,
    path: Path,
    declared: Sequence[Declared],
    *,
    by: Author,
    queued: Decision | None = None,
) -> list[Outcome]:
    """Return the result of `apply`, or raise its errors; no account is changed.

    Also raises SettingsError for chosen properties that the CRM of an account does not have.
    """
    problems = []
    for each in declared:
        try:
            account = hub.load_account(each.client_id)
            # A CRM that the file brings is asked by the copy.
            if each.crm is None or each.crm.adapter == account.connection.adapter:
                copy_plan.require_known_properties(hub, account, each.values, path="switches.")
        except NotFound:
            continue
        except Semantic as exc:
            problems.append(f"{path}: [{each.client_id}] {exc.message}")
    if problems:
        raise SettingsError(problems)
    return hub.rehearse(lambda _: apply(hub, path, declared, by=by, queued=queued))


@in_transaction
def apply(
    hub: Hub,
    tx: Connection,
    path: Path,
    declared: Sequence[Declared],
    *,
    by: Author,
    queued: Decision | None = None,
) -> list[Outcome]:
    """Create and change accounts as declared; return only the changed ones.

    `queued` decides about the actions queued for a former CRM. If any account has a fault, none is
    changed, and SettingsError names every fault.
    """
    outcomes, problems = [], []
    for account in declared:
        try:
            # Each account is rolled back alone, so that the faults of all accounts are found.
            outcomes.append(_apply_one(hub, account, by, queued))
        except (Conflict, Semantic) as exc:
            problems.append(f"{path}: [{account.client_id}] {exc.message}")
    if problems:
        raise SettingsError(problems)
    return [outcome for outcome in outcomes if outcome.opened or outcome.differences]


@in_transaction
def _apply_one(
    hub: Hub, tx: Connection, declared: Declared, by: Author, queued: Decision | None
) -> Outcome:
    client_id, opened = declared.client_id, None
    try:
        account = accounts.load(tx, client_id, hub.plans)
    except NotFound:
        account, opened = open_account(
            hub,
            name=declared.values.get("name", client_id),
            client_id=client_id,
            adapter=declared.crm.adapter if declared.crm else "local",
            plan=declared.values.get("plan", "default"),
            by=by,
        )
    differences: list[Difference] = []

    def change_crm() -> None:
        if declared.crm is not None:
            is_new = opened is not None
            differences.extend(
                _set_crm(hub, account, declared.crm, by, is_new=is_new, queued=queued)
            )

    # Only the CRM that the account gets can be copied.
    crm_first = declared.values.get("mirror") in (True, "true")
    if crm_first:
        change_crm()
    before = change_account.changeable(tx, account)
    changed = change_account.store(
        hub, client_id, declared.values, disabled=declared.disabled, path="switches.", by=by
    )
    differences += _differences(before, change_account.changeable(tx, changed))
    if not crm_first:
        change_crm()
    if declared.field_map is not None:
        differences += _set_field_map(hub, client_id, declared.field_map, by)
    for name, team in declared.teams.items():
        team_before, team_after = change_team.declare_team(hub, client_id, name, team, by=by)
        facts = [change_team.audit_facts(one) if one else {} for one in (team_before, team_after)]
        old, new = ({f"teams.{name}.{key}": fact[key] for key in fact} for fact in facts)
        differences += _differences(old, new)
    return Outcome(client_id, opened, tuple(differences))


def _set_crm(
    hub: Hub, account: Account, crm: Crm, by: Author, *, is_new: bool, queued: Decision | None
) -> list[Difference]:
    """Set a CRM that differs, and a new account's in any case: missing settings are reported."""
    same = account.connection.adapter == crm.adapter
    stored = (set_crm.stored_secrets(hub, account) if same else None) or {}
    # A stored secret is not set again: the adapter would lose the credentials that it keeps itself.
    credentials = {
        name: value for name, value in crm.credentials.items() if value != stored.get(name, "")
    }
    settings = {name: value for name, value in crm.settings.items() if value}
    if not is_new and same and not credentials and settings == dict(account.connection.settings):
        return []
    crm = replace(crm, settings=settings, credentials=credentials)
    changed = set_crm.set_crm(hub, account.client_id, crm, test=False, queued=queued, by=by)
    before, after = set_crm.audit_facts(hub, account, changed)
    return _differences(_flatten(before), _flatten(after))


def _set_field_map(hub: Hub, client_id: str, field_map: FieldMap, by: Author) -> list[Difference]:
    before = hub.load_account(client_id).connection.field_map
    map_fields.set_field_map(hub, client_id, field_map, test=False, by=by)
    old, new = (
        {f"connection.field_map.{path}": rule for path, rule in rules.flat().items()}
        for rules in (before, field_map)
    )
    return _differences(old, new)


def _flatten(connection: Mapping[str, Any]) -> dict[str, Any]:
    flat = {"connection.adapter": connection["adapter"]}
    for part in ("settings", "secrets"):
        flat |= {f"connection.{part}.{name}": value for name, value in connection[part].items()}
    return flat


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    return [
        (name, before.get(name, _NOT_SET), after.get(name, _NOT_SET))
        for name in {**before, **after}
        if before.get(name, _NOT_SET) != after.get(name, _NOT_SET)
    ]


# --- export ------------------------------------------------------------------------------------


def export(hub: Hub, client_ids: Sequence[str] = ()) -> str:
    """Return accounts, without `client_ids` all, as a file for `apply`.

    Secrets are references to environment variables. Raises NotFound and Unreadable.
    """
    with hub.database.reading() as db:
        # One by one: `accounts.list_accounts` would leave out an unreadable account.
        exported = [
            accounts.load(db, client_id, hub.plans)
            for client_id in client_ids or accounts.client_ids(db)
        ]
        values = [change_account.changeable(db, account) for account in exported]
        teams_of = [teams.list_teams(db, account.id) for account in exported]
    variables: set[str] = set()
    parts = [
        "# Accounts, as `crmhub account apply` takes them. Keys and webhook ids belong to the\n"
        "# installation and are not here; put the secrets where the references lead."
    ]
    for account, of_account, of_teams in zip(exported, values, teams_of, strict=True):
        parts += _tables(hub, account, of_account, variables)
        for team in of_teams:
            path = [account.client_id, "teams", team.name]
            parts.append(table_text(path, change_team.declaration(team)))
    return "\n\n".join(parts) + "\n"


def _tables(hub: Hub, account: Account, values: dict[str, Any], variables: set[str]) -> list[str]:
    """Add the variables of its secrets to `variables`."""
    name, connection = account.client_id, account.connection
    own = {key: values.pop(key) for key in ("name", "plan", "disabled")}
    tables = [
        table_text([name], own),
        table_text([name, "switches"], values),
        table_text([name, "connection"], {"adapter": connection.adapter}),
    ]
    secrets = {
        secret: {"env": _variable(f"SECRET_{name}_{secret}", variables)}
        for secret in set_crm.secret_names(hub, account) or ()
    }
    optional: dict[str, Mapping[str, Any]] = {"settings": connection.settings, "secrets": secrets}
    for part, entries in optional.items():
        if entries:
            tables.append(table_text([name, "connection", part], entries))
    for kind, rules in connection.field_map.plain().items():
        if rules:
            tables.append(table_text([name, "connection", "field_map", kind], rules))
    return tables


def _variable(name: str, used: set[str]) -> str:
    stem = re.sub("[^A-Z0-9]", "_", name.upper())
    variable, number = stem, 2
    while variable in used:
        variable, number = f"{stem}_{number}", number + 1
    used.add(variable)
    return variable
