"""`crmhub audit`: who changed what."""

from __future__ import annotations

import json
from typing import Any

import rich_click as click

from crmhub.cli.inputs import duration
from crmhub.cli.open_hub import load_account, opened_hub
from crmhub.cli.output import in_words, print_columns, print_json

# Said again, so that `--help` needs to load nothing.
_OBJECTS = (
    "account", "connection", "fieldMap", "key", "webhookId", "token", "user", "workflow",
    "actions", "person", "records", "encryptionKey", "duplicate",
)  # fmt: skip
_VERBS = (
    "open",
    "change",
    "create",
    "revoke",
    "rotate",
    "enrol",
    "unenrol",
    "retry",
    "edit",
    "discard",
    "erase",
    "import",
    "export",
    "merge",
    "unmerge",
    "dismiss",
)


@click.group()
def audit() -> None:
    """Who changed what, by command, in the console or through the admin API."""


@audit.command(name="list")
@click.option("--account", "client_id", metavar="CLIENT_ID", help="Of this account.")
@click.option("--object", "object_", type=click.Choice(_OBJECTS), help="What was changed.")
@click.option("--verb", type=click.Choice(_VERBS), help="What was done to it.")
@click.option(
    "--by",
    metavar="NAME",
    help="A user, an email of the console, or the name or id of an admin token.",
)
@click.option("--newer-than", type=duration, metavar="TIME", help="Since so long ago: 12h.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--before", type=int, metavar="ID", help="Begin behind this entry.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_entries(
    client_id: str | None,
    object_: str | None,
    verb: str | None,
    by: str | None,
    newer_than: int | None,
    limit: int,
    before: int | None,
    as_json: bool,
) -> None:
    """List changes, the newest first, with what was there before. No secret is shown."""
    from crmhub import audit as log
    from crmhub.api.admin.account_answers import entry_shown

    with opened_hub() as hub:
        wanted = log.Wanted(
            account_id=load_account(hub, client_id).id if client_id else None,
            object=object_ or "",
            verb=verb or "",
            by=by or "",
            newer_than_ms=newer_than,
            before_id=before,
        )
        with hub.database.reading() as db:
            found = log.listed(db, wanted, limit=limit)
    if as_json:
        print_json([entry_shown(one) for one in found])
        return
    print_columns(
        ("ID", "AT", "BY", "ACCOUNT", "CHANGE", "BEFORE -> AFTER"),
        [
            (
                str(one.id),
                in_words(one.at),
                f"{one.by.name} ({one.by.id or one.by.kind})",
                one.client_id or "-",
                f"{one.verb} {one.object} {one.object_id}".strip(),
                _differing(dict(one.before), dict(one.after)),
            )
            for one in found
        ],
    )


def _differing(before: dict[str, Any], after: dict[str, Any]) -> str:
    def shown(value: Any) -> str:
        return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)

    parts = []
    for name in {**before, **after}:
        became = shown(after[name]) if name in after else "-"
        parts.append(
            f"{name}: {shown(before[name])} -> {became}" if name in before else f"{name}: {became}"
        )
    return ", ".join(parts) or "-"
