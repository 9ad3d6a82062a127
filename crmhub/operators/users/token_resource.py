"""Tokens of the admin API, as operators see them, and what they do with them."""

from __future__ import annotations

from typing import Any

from crmhub.operators.resources import Argument, Column, Resource, Verb


def _scopes(token: Any) -> tuple[str, ...]:
    from crmhub.accounts.admin_tokens import SCOPES

    return ("all",) if token.scopes == SCOPES else tuple(token.scopes)


TOKEN = Resource(
    "Token",
    (
        Column("tokenId", title="Token id"),
        Column("name", title="Name", shorten=2),
        Column("hint", title="Ends in", cell="…{}"),
        Column("", "validity", title="State"),
        Column("scopes", "words"),
        Column("createdAt", "moment"),
        Column("expiresAt", "moment"),
        Column("revokedAt", "moment"),
        Column("lastUsedAt", "moment", title="Last used"),
        Column("", "words", title="Scopes", of=_scopes, shorten=1),
    ),
)
ISSUED_TOKEN = Resource(
    "IssuedToken",
    (
        Column("", of="token", title="Token"),
        Column("tokenId", title="Token id"),
        Column("name", title="Name"),
        Column("token"),
        Column("scopes", "words", title="Scopes"),
        Column("expiresAt", "moment", title="Expires"),
    ),
)
VERBS = (
    Verb(
        command="create",
        does="crmhub.operators.users.console_users:create_token",
        summary="Create a token, which is shown only once. NAME says what it is for.",
        arguments=(
            Argument("name", option="", required=True),
            Argument(
                "scopes",
                "words",
                "What it may do, such as actions:read; without any: everything.",
                "--scope",
                "RESOURCE:RIGHT",
            ),
            Argument(
                "expires_at",
                "moment",
                "When it ends: 90d from now, or on a local date. Not given: never.",
                "--expires",
                "TIME",
            ),
        ),
        shows=ISSUED_TOKEN,
        after="The token is not shown again: store it now.",
    ),
    Verb(
        command="list",
        does="crmhub.operators.users.console_users:list_tokens",
        summary="List the tokens, without the tokens themselves.",
        shows=TOKEN,
        many=True,
    ),
    Verb(
        command="revoke",
        does="crmhub.operators.users.console_users:revoke_token",
        summary="Revoke a token, within a second in every process.",
        arguments=(Argument("token_id", option="", required=True),),
        says="Token {token_id} is revoked.",
    ),
)
