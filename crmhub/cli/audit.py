"""`crmhub audit`: list the changes that the audit log records."""

from __future__ import annotations

import json
from typing import Any

import rich_click as click

from crmhub.cli.inputs import duration
from crmhub.cli.open_hub import opened_hub
from crmhub.cli.output import in_words, print_columns, print_json

# Copied from crmhub.audit, so that `--help` does not import it.
_OBJECTS = (
    "account", "connection", "fieldMap", "key", "webhookId", "token", "user", "workflow",
    "actions", "person", "records", "encryptionKey", "duplicate",
    "connectLink", "eventSubscription",
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
    "invite",
    "reset",
    "remove",
    "link",
    "pick",
    "replay",
)


@click.group()
def audit() -> None:
    """Show changes made by command, in the console or through the admin API."""


@audit.command(name="list")
@click.option("--account", "client_id", metavar="CLIENT_ID", help="Only this account.")
@click.option(
    "--object", "object_", type=click.Choice(_OBJECTS), help="Only changes of this kind of object."
)
@click.option("--verb", type=click.Choice(_VERBS), help="Only this kind of change.")
@click.option(
    "--by",
    metavar="NAME",
    help="Only by this author: a system user, a console email, or an admin token's name or id.",
)
@click.option("--newer-than", type=duration, metavar="TIME", help="Only within the last 12h, 3d.")
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--before", type=int, metavar="ID", help="Start after this entry.")
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
    """List changes, newest first, with values before and after. Secrets are never shown."""
    from crmhub import audit as log
    from crmhub.api.admin.account_answers import EntryShown

    with opened_hub() as hub:
        query = log.Wanted(
            account_id=hub.load_account(client_id).id if client_id else None,
            object=object_ or "",
            verb=verb or "",
            by=by or "",
            newer_than_ms=newer_than,
            before_id=before,
        )
        with hub.database.reading() as db:
            entries = log.listed(db, query, limit=limit)
    if as_json:
        print_json(EntryShown(many=True).dump(entries))
        return
    print_columns(
        ("ID", "AT", "BY", "ACCOUNT", "CHANGE", "BEFORE -> AFTER"),
        [
            (
                str(entry.id),
                in_words(entry.at),
                f"{entry.by.name} ({entry.by.id or entry.by.kind})",
                entry.client_id or "-",
                f"{entry.verb} {entry.object} {entry.object_id}".strip(),
                _describe_change(dict(entry.before), dict(entry.after)),
            )
            for entry in entries
        ],
    )


def _describe_change(before: dict[str, Any], after: dict[str, Any]) -> str:
    def as_text(value: Any) -> str:
        return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)

    parts = []
    for name in {**before, **after}:
        new_text = as_text(after[name]) if name in after else "-"
        parts.append(
            f"{name}: {as_text(before[name])} -> {new_text}"
            if name in before
            else f"{name}: {new_text}"
        )
    return ", ".join(parts) or "-"
