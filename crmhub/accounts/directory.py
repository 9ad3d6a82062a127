"""Who is calling: accounts found by key, webhook id, secret or client id; operators by token.

Answers are remembered in the process for at most half a second, so that a revoked key or a
changed switch takes effect within a second everywhere, without asking the database each time.
Only what was found is remembered: a new key works at once, and guesses fill no memory.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from crmhub.accounts import admin_tokens, keys
from crmhub.accounts.accounts import COLUMNS, TABLES, Account, account_of
from crmhub.accounts.last_use import LastUse
from crmhub.accounts.plans import Plan
from crmhub.accounts.webhook_ids import Purpose
from crmhub.database.bulk import Row
from crmhub.database.connection import Database, now_ms
from crmhub.errors import Unauthorized
from crmhub.secrets import digest, looks_like_admin_token, looks_like_api_key

_TTL = 0.5
_SIZE = 10_000
# What cannot be an id is not asked for: PostgreSQL takes no NUL, and no text of any length.
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_SECRET = re.compile(r"[A-Za-z0-9]{20,100}", re.ASCII)

_UNAUTHORIZED = (
    "The API key is missing or not valid for this account; "
    "send a live key of the account in the header service-apikey."
)


@dataclass(frozen=True, slots=True)
class Caller:
    """An account that proved itself with an API key, and what that key may do."""

    account: Account
    key_id: str
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Operator:
    """Who proved with an admin token to be one of the operators, and what the token may do."""

    token_id: str
    name: str
    scopes: frozenset[str]


# No account has this number; what is the operator's belongs to it.
_NOBODY = 0


@dataclass(frozen=True, slots=True)
class _Found:
    """What a query found, whose it is, and when it ends (ms; None: not by itself)."""

    value: Any
    account_id: int
    ends_at: int | None = None


class Directory:
    """Finds accounts and operators; `close` writes when keys and tokens were last used.

    Disabled accounts are not found, except by `by_client_id` and `by_id`. Every method raises
    Unavailable when the database is away and nothing is remembered.
    """

    def __init__(self, database: Database, plans: Mapping[str, Plan], ttl: float = _TTL) -> None:
        self._database = database
        self._plans = plans
        self._ttl = ttl
        self._remembered: dict[tuple[str, str], tuple[float, _Found]] = {}
        self._lock = threading.Lock()
        self._changes = 0
        self._last_use = LastUse(database, keys.note_use)
        self._last_use_of_tokens = LastUse(database, admin_tokens.note_use)

    def by_api_key(self, client_id: str, key: str) -> Caller:
        """Return who calls with this key in this account's path.

        Raises Unauthorized in the same words for an unknown client, a wrong, expired or revoked
        key, and a disabled account.
        """
        caller = self.by_any_key(key)
        if caller is None or caller.account.client_id != client_id:
            raise Unauthorized(_UNAUTHORIZED)
        return caller

    def by_any_key(self, key: str) -> Caller | None:
        """Return whose live key this is, if anybody's."""
        if not key.isascii():
            return None
        hashed = digest(key)
        caller: Caller | None = self._find(
            "key", hashed, lambda: self._by_digest(hashed) if looks_like_api_key(key) else None
        )
        if caller is not None:
            self._last_use.note((caller.account.id, caller.key_id))
        return caller

    def by_admin_token(self, token: str) -> Operator | None:
        """Return whose live admin token this is, if anybody's."""
        if not looks_like_admin_token(token):
            return None
        hashed = digest(token)
        operator: Operator | None = self._find(
            "admin_token", hashed, lambda: self._by_token_digest(hashed)
        )
        if operator is not None:
            self._last_use_of_tokens.note(operator.token_id)
        return operator

    def by_webhook_id(self, value: str) -> tuple[Account, Purpose] | None:
        """Return whose id this is in a webhook path, and of which purpose.

        Our own ids are taken in any case. An alias proves nothing: demand the secret with it.
        """
        if not _ID.fullmatch(value):
            return None
        found = self._find("webhook_id", value, lambda: self._by_webhook_id(value))
        return cast("tuple[Account, Purpose] | None", found)

    def by_secret(self, secret: str) -> Account | None:
        """Return whose webhook secret this is, if anybody's."""
        if not _SECRET.fullmatch(secret):
            return None
        hashed = digest(secret)
        return self._account("secret", hashed, lambda: self._by_secret(hashed))

    def only_account(self) -> Account | None:
        """Return the account when the installation has no other, not even a disabled one."""
        return self._account("only", "", self._by_being_alone)

    def by_client_id(self, client_id: str) -> Account | None:
        """Return the account, disabled or not."""
        if not _ID.fullmatch(client_id):
            return None
        return self._account(
            "client_id", client_id, lambda: self._one("a.client_id = :it", client_id)
        )

    def by_id(self, account_id: int) -> Account | None:
        """Return the account, disabled or not."""
        return self._account("id", str(account_id), lambda: self._one("a.id = :it", account_id))

    def forget(self, account_id: int) -> None:
        """Remember nothing about the account, after a change to it in this process."""
        self._database.after_commit(lambda: self._forget(account_id))

    def _forget(self, account_id: int) -> None:
        with self._lock:
            self._changes += 1
            for key, (_, found) in list(self._remembered.items()):
                if found.account_id == account_id or key[0] == "only":
                    del self._remembered[key]

    def close(self) -> None:
        """Write when keys and tokens were last used."""
        self._last_use.close()
        self._last_use_of_tokens.close()

    def _account(self, by: str, value: str, query: Callable[[], _Found | None]) -> Account | None:
        return cast("Account | None", self._find(by, value, query))

    def _find(self, by: str, value: str, query: Callable[[], _Found | None]) -> Any:
        """Return what is remembered, or what `query` finds, which runs without a lock."""
        # Read before the query: what it finds is as old as its beginning.
        now, changes = time.monotonic(), self._changes
        remembered = self._remembered.get((by, value))
        if remembered is not None and remembered[0] > now:
            return remembered[1].value
        found = query()
        if found is None:
            return None
        self._remember((by, value), found, now, changes)
        return found.value

    def _remember(self, key: tuple[str, str], found: _Found, now: float, changes: int) -> None:
        until = now + self._ttl
        if found.ends_at is not None:
            until = min(until, now + (found.ends_at - now_ms()) / 1000)
        with self._lock:
            if changes != self._changes:
                # Read before a change that `forget` told of.
                return
            self._remembered.pop(key, None)
            if len(self._remembered) >= _SIZE:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[key] = (until, found)

    # The queries.

    def _row(self, sql: str, params: Mapping[str, Any]) -> Row | None:
        with self._database.reading() as db:
            return db.row(sql, params)

    def _by_digest(self, hashed: str) -> _Found | None:
        row = self._row(
            f"select k.id, k.scopes, k.expires_at, {COLUMNS} from {TABLES}"
            " join api_key k on k.account_id = a.id where k.digest = :digest"
            " and k.revoked_at is null and (k.expires_at is null or k.expires_at > :now)"
            " and a.disabled_at is null",
            {"digest": hashed, "now": now_ms()},
        )
        if row is None:
            return None
        account = account_of(row[3:], self._plans)
        return _Found(
            Caller(account, row[0], frozenset(keys.scopes_of(row[1]))), account.id, row[2]
        )

    def _by_token_digest(self, hashed: str) -> _Found | None:
        row = self._row(
            "select id, name, scopes, expires_at from admin_token where digest = :digest"
            " and revoked_at is null and (expires_at is null or expires_at > :now)",
            {"digest": hashed, "now": now_ms()},
        )
        if row is None:
            return None
        operator = Operator(row[0], row[1], frozenset(admin_tokens.scopes_of(row[2])))
        return _Found(operator, _NOBODY, row[3])

    def _by_webhook_id(self, value: str) -> _Found | None:
        row = self._row(
            f"select w.purpose, w.expires_at, {COLUMNS} from {TABLES}"
            " join webhook_id w on w.account_id = a.id where w.value in (:value, :lower)"
            " and ((w.purpose in ('generated', 'portal') and w.value = :lower)"
            " or (w.purpose = 'alias' and w.value = :value))"
            " and (w.expires_at is null or w.expires_at > :now) and a.disabled_at is null"
            " order by w.purpose desc",
            {"value": value, "lower": value.lower(), "now": now_ms()},
        )
        if row is None:
            return None
        account = account_of(row[2:], self._plans)
        return _Found((account, row[0]), account.id, row[1])

    def _by_secret(self, hashed: str) -> _Found | None:
        row = self._row(
            f"select w.expires_at, {COLUMNS} from {TABLES}"
            " join webhook_id w on w.account_id = a.id where w.value = :digest"
            " and w.purpose = 'secret' and (w.expires_at is null or w.expires_at > :now)"
            " and a.disabled_at is null",
            {"digest": hashed, "now": now_ms()},
        )
        if row is None:
            return None
        account = account_of(row[1:], self._plans)
        return _Found(account, account.id, row[0])

    def _by_being_alone(self) -> _Found | None:
        with self._database.reading() as db:
            rows = db.rows(f"select {COLUMNS} from {TABLES} limit 2")
        if len(rows) != 1:
            return None
        account = account_of(rows[0], self._plans)
        return None if account.disabled else _Found(account, account.id)

    def _one(self, condition: str, value: str | int) -> _Found | None:
        row = self._row(f"select {COLUMNS} from {TABLES} where {condition}", {"it": value})
        if row is None:
            return None
        account = account_of(row, self._plans)
        return _Found(account, account.id)
