"""The webhook ids of accounts, which stand in webhook paths, and their webhook secrets.

Webhook ids are stored in plain text, because operators look them up; of a secret only the digest.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_args

import sqlalchemy as sa

from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import delete_where
from crmhub.database.statements import Statement, param, params
from crmhub.database.tables import webhook_id
from crmhub.errors import Conflict, Semantic
from crmhub.secrets import digest, new_secret, new_webhook_id
from crmhub.translatable import translatable

Purpose = Literal["generated", "portal", "alias"]
Rotatable = Literal["generated", "portal", "secret"]
ROTATABLE: tuple[Rotatable, ...] = get_args(Rotatable)

WebhookId = Any
"""A row with `purpose`, `value` and `expires_at` (ms since 1970, None for never)."""
WEEK_MS = 7 * 24 * 3600 * 1000

_ALIAS = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)

_id = webhook_id.c
_OF_ACCOUNT = _id.account_id == param("account_id")
_LIST = Statement(
    sa.select(_id.purpose, _id.value, _id.expires_at)
    .where(
        _OF_ACCOUNT,
        _id.purpose != "secret",
        sa.or_(_id.expires_at.is_(None), _id.expires_at > param("now")),
    )
    .order_by(_id.purpose, _id.expires_at.is_not(None), _id.expires_at.desc())
)
_DELETE_EXPIRED = Statement(
    sa.delete(webhook_id).where(_OF_ACCOUNT, _id.expires_at <= param("now"))
)
_EXPIRE = Statement(
    sa.update(webhook_id)
    .where(
        _OF_ACCOUNT,
        _id.purpose == param("purpose"),
        sa.or_(_id.expires_at.is_(None), _id.expires_at > param("expires_at")),
    )
    .values(params("expires_at"))
)
_INSERT = Statement(
    lambda insert: (
        insert(webhook_id)
        .values(params("value", "account_id", "purpose", "created_at"))
        .on_conflict_do_nothing(index_elements=["value"])
    )
)


def webhook_ids(db: Connection, account_id: int) -> list[WebhookId]:
    """Return the valid ones, without secrets, by purpose, the newest first."""
    return db.rows(_LIST, {"account_id": account_id, "now": now_ms()})


def issue(tx: Connection, account_id: int, kind: Rotatable) -> str:
    """Existing ones stay valid."""
    value = new_secret() if kind == "secret" else new_webhook_id()
    _insert(tx, account_id, kind, digest(value) if kind == "secret" else value)
    return value


def rotate(tx: Connection, account_id: int, kind: Rotatable, *, keep_ms: int = WEEK_MS) -> str:
    """The existing ones expire after `keep_ms`, unless earlier. Raises Semantic for an unknown
    kind.
    """
    if kind not in ROTATABLE:
        raise Semantic(
            "%(kind)s cannot be changed; give one of %(rotatable)s.",
            kind=repr(kind),
            rotatable=", ".join(get_args(Rotatable)),
        )
    now = now_ms()
    tx.run(_DELETE_EXPIRED, {"account_id": account_id, "now": now})
    tx.run(_EXPIRE, {"account_id": account_id, "purpose": kind, "expires_at": now + keep_ms})
    return issue(tx, account_id, kind)


def set_alias(tx: Connection, account_id: int, alias: str) -> None:
    """Set, or with "" remove, the portal id in the CRM as a webhook id.

    An alias can be guessed, so calls with it also need the webhook secret. Raises Semantic for a
    wrong form, and Conflict if another account has it.
    """
    if alias and not is_alias(alias):
        raise Semantic("portal_alias: %(form)s.", form=ALIAS_FORM)
    delete_where(tx, webhook_id, {"account_id": account_id, "purpose": "alias"})
    if alias and not _insert(tx, account_id, "alias", alias):
        raise Conflict(
            "portal_alias: %(alias)s is used already, by another account.", alias=repr(alias)
        )


ALIAS_FORM = translatable("give 1 to 64 letters, digits, - _ and ., or nothing for none")


def is_alias(text: str) -> bool:
    return _ALIAS.fullmatch(text) is not None


def _insert(tx: Connection, account_id: int, purpose: str, value: str) -> bool:
    """False if it is taken."""
    # ON CONFLICT: on PostgreSQL the error of a unique key would end the transaction.
    id = {"value": value, "account_id": account_id, "purpose": purpose, "created_at": now_ms()}
    return tx.run(_INSERT, id) > 0
