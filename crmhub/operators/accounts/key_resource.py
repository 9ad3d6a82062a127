"""An account's API keys, as operators see them, and what they do with them."""

from __future__ import annotations

from typing import Any

from crmhub.operators.resources import WITH_BODY, WITHOUT_BODY, Argument, Column, Resource, Verb

_OPERATIONS = "crmhub.operators.accounts.change_account"
_NEVER: dict[str, Any] = {"null": True, "says": "null: never."}
_ONCE = "Shown this once: the hub keeps a hash of it."
_MAY = "What it may do."


def _scopes(key: Any) -> tuple[str, ...]:
    from crmhub.accounts.keys import SCOPES

    return ("all",) if key.scopes == SCOPES else tuple(key.scopes)


KEY = Resource(
    "Key",
    (
        Column("keyId", title="Key id"),
        Column("name", "text", "What it is for; may be empty."),
        Column("", of=lambda key: key.name or "–", title="Name", shorten=2),
        Column("hint", title="Ends in", cell="…{}"),
        Column("", "validity", title="State"),
        Column("scopes", "words", _MAY),
        Column("createdAt", "moment", **_NEVER),
        Column("expiresAt", "moment", **_NEVER),
        Column("revokedAt", "moment", **_NEVER),
        Column("lastUsedAt", "moment", title="Last used", **_NEVER),
        Column("", "words", title="Scopes", of=_scopes, shorten=1),
    ),
)

ISSUED_KEY = Resource(
    "IssuedKey",
    (
        Column("", of="api_key", title="API key"),
        Column("keyId", title="Key id"),
        Column("", of="name", title="Name"),
        Column("apiKey", "text", _ONCE),
        Column("scopes", "words", _MAY, "Scopes"),
        Column("expiresAt", "moment", title="Expires", **_NEVER),
    ),
)

LIST = Verb(
    operation="listKeys",
    route="GET /accounts/<client_id>/keys",
    scope="accounts:read",
    command="key list",
    does=f"{_OPERATIONS}:list_keys",
    summary="List an account's API keys, without the keys themselves",
    shows=KEY,
    many=True,
)

CREATE = Verb(
    operation="createKey",
    route="POST /accounts/<client_id>/keys",
    status=201,
    scope="accounts:write",
    errors=WITH_BODY,
    command="key create",
    does=f"{_OPERATIONS}:create_key",
    summary="Create an API key, which is shown only once",
    input="KeyInput",
    arguments=(
        Argument("name", "text", "What it is for.", "--name", "NAME", longest=100),
        Argument(
            "scopes",
            "words",
            "What it may do, such as contacts:read; without any: everything.",
            "--scope",
            "RESOURCE:RIGHT",
            words="crmhub.accounts.keys:SCOPES",
        ),
        Argument(
            "expires_at",
            "moment",
            "When it ends; without it never. A date is meant in UTC.",
            "--expires",
            "TIME",
            command_says="When it ends: 90d from now, or on a local date. Not given: never.",
        ),
    ),
    shows=ISSUED_KEY,
    after="The key is not shown again: store it now.",
)

REVOKE = Verb(
    operation="revokeKey",
    route="DELETE /accounts/<client_id>/keys/<key_id>",
    scope="accounts:write",
    errors=WITHOUT_BODY,
    command="key revoke",
    does=f"{_OPERATIONS}:revoke_key",
    summary="Revoke an API key, within a second in every process",
    help="The event subscriptions that the key has made are disabled.",
    says=lambda ended, given: [
        f"Key {given['key_id']} is revoked.",
        *(f"Its event subscription {each.id} is disabled." for each in ended),
    ],
)
