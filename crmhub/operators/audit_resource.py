"""The audit log, as operators see it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from crmhub.operators.resources import WITHOUT_BODY, Argument, Column, Resource, Verb

if TYPE_CHECKING:
    from crmhub.accounts.accounts import Account
    from crmhub.audit import Author, Entry
    from crmhub.hub import Hub


def _change(entry: Any) -> str:
    def text(value: Any) -> str:
        return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)

    before, after = dict(entry.before), dict(entry.after)
    parts = []
    for name in {**before, **after}:
        new = text(after[name]) if name in after else "-"
        parts.append(
            f"{name}: {text(before[name])} -> {new}" if name in before else f"{name}: {new}"
        )
    return ", ".join(parts) or "-"


def _author(by: Author) -> str:
    return f"{by.name} ({by.id or by.kind})"


def entries(
    hub: Hub,
    *,
    limit: int,
    account: Account | None = None,
    author: str = "",
    object: str = "",
    verb: str = "",
    newer_than: int | None = None,
    when: tuple[int, int] = (0, 0),
    after: int | None = None,
) -> list[Entry]:
    from crmhub import audit

    wanted = audit.Wanted(
        account_id=account.id if account else None,
        object=object,
        verb=verb,
        by=author,
        newer_than_ms=newer_than,
        at=when,
        before_id=after,
    )
    with hub.database.reading() as db:
        return audit.listed(db, wanted, limit=limit)


AUTHOR = Resource(
    "Author",
    (
        Column("kind", words="crmhub.audit:AUTHOR_KINDS"),
        Column("name"),
        Column("id", "text", 'Of the token or the user of the console; else "".'),
    ),
)
ENTRY = Resource(
    "Entry",
    (
        Column("id", "number", least=1, title="Id"),
        Column("at", "moment", title="At"),
        Column("by", AUTHOR),
        Column("", of=lambda entry: _author(entry.by), title="By"),
        Column("verb", words="crmhub.audit:VERBS"),
        Column("object", words="crmhub.audit:OBJECTS"),
        Column("objectId"),
        Column("clientId", "text", '"" where it is of none.'),
        Column("", of=lambda entry: entry.client_id or "-", title="Account"),
        Column(
            "",
            of=lambda entry: f"{entry.verb} {entry.object} {entry.object_id}".strip(),
            title="Change",
        ),
        Column("before", "by name", "What differs, as it was before; a secret is `set`."),
        Column("after", "by name", "What differs, as it was afterwards; a secret is `set`."),
        Column("", of=_change, title="Before -> after", shorten=1),
    ),
    page="AuditPage",
)
LIST = Verb(
    operation="listAuditEntries",
    route="GET /audit",
    scope="audit:read",
    errors=WITHOUT_BODY,
    command="list",
    does="crmhub.operators.audit_resource:entries",
    summary="List who changed what, the newest first. Secrets are never shown.",
    input="AuditQuery",
    arguments=(
        Argument(
            "account",
            "account",
            "The clientId of the account.",
            "--account",
            "CLIENT_ID",
            longest=64,
        ),
        Argument("object", "choice", "What was changed.", "--object", words="crmhub.audit:OBJECTS"),
        Argument("verb", "choice", "What was done to it.", "--verb", words="crmhub.audit:VERBS"),
        Argument(
            "author",
            "filled",
            "The name or the id of a token, a user at the command line or one of the console.",
            "--by",
            "NAME",
            wire="by",
            longest=100,
        ),
        Argument("newer_than", "age", "Since so long ago: 12h.", "--newer-than", "TIME"),
        Argument(
            "when",
            "period",
            "In this period, such as today or 2026-11-24..2026-11-26; days are in UTC.",
            "--when",
            "PERIOD",
            command_says="In this period: today, 2026-11-24..2026-11-26; local days.",
        ),
        Argument(
            "after",
            "number",
            option="--before",
            wire=None,
            metavar="ID",
            command_says="Start after this entry.",
        ),
    ),
    shows=ENTRY,
    many=True,
    place=lambda entry: entry.id,
)
