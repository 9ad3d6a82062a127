"""Find accounts by API key, webhook id, webhook secret or client id, and operators by token.

Results are cached in the process for at most half a second. So a revoked key or a changed switch
takes effect everywhere within a second, without a query for each request. Failed look-ups are not
cached: a new key works at once, and guesses do not fill the memory.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import sqlalchemy as sa

from crmhub.accounts import admin_tokens, keys
from crmhub.accounts.accounts import BY_ID, Account, account_of
from crmhub.accounts.plans import Plan
from crmhub.accounts.webhook_ids import Purpose
from crmhub.database import tables
from crmhub.database.connection import Connection, Database, now_ms
from crmhub.database.statements import Statement, one_of, param
from crmhub.database.tables import admin_token, api_key, webhook_id
from crmhub.errors import Unavailable
from crmhub.secrets import digest, looks_like_admin_token, looks_like_api_key

_TTL = 0.5
_SIZE = 10_000
_EVERY_SECONDS = 10.0
# The name that its log lines have always had.
_log = logging.getLogger("crmhub.accounts.last_use")
# Other texts are not queried: PostgreSQL refuses NUL and very long texts.
_ID = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)
_SECRET = re.compile(r"[A-Za-z0-9]{20,100}", re.ASCII)

_account, _key, _token, _webhook = tables.account.c, api_key.c, admin_token.c, webhook_id.c


def _is_unexpired(expires_at: sa.Column[Any]) -> sa.ColumnElement[bool]:
    return sa.or_(expires_at.is_(None), expires_at > param("now"))


# These statements find the account, so they cannot name it. They read the small tables that route
# alone: `BY_ID` then reads the account with its connection.
_BY_KEY = Statement(
    sa.select(
        _account.id.label("account_id"),
        _key.id.label("key_id"),
        _key.name.label("key_name"),
        _key.scopes,
        _key.expires_at,
    )
    .join_from(api_key, tables.account, _key.account_id == _account.id)
    .where(
        _key.digest == param("digest"),
        _key.revoked_at.is_(None),
        _is_unexpired(_key.expires_at),
        _account.disabled_at.is_(None),
    )
)
_BY_TOKEN = Statement(
    sa.select(_token.id, _token.name, _token.scopes, _token.expires_at).where(
        _token.digest == param("digest"),
        _token.revoked_at.is_(None),
        _is_unexpired(_token.expires_at),
    )
)
_SELECT_WEBHOOK = (
    sa.select(_account.id.label("account_id"), _webhook.purpose, _webhook.expires_at)
    .join_from(webhook_id, tables.account, _webhook.account_id == _account.id)
    .where(_is_unexpired(_webhook.expires_at), _account.disabled_at.is_(None))
)
_BY_WEBHOOK_ID = Statement(
    _SELECT_WEBHOOK.where(
        _webhook.value.in_([param("value"), param("lower")]),
        sa.or_(
            sa.and_(
                one_of(_webhook.purpose, "generated", "portal"), _webhook.value == param("lower")
            ),
            sa.and_(_webhook.purpose == "alias", _webhook.value == param("value")),
        ),
    ).order_by(_webhook.purpose.desc())
)
_BY_SECRET = Statement(
    _SELECT_WEBHOOK.where(_webhook.value == param("digest"), _webhook.purpose == "secret")
)
_BY_CLIENT_ID = Statement(
    sa.select(_account.id.label("account_id"), sa.null().label("expires_at")).where(
        _account.client_id == param("client_id")
    )
)
_FIRST_TWO = Statement(sa.select(_account.id, _account.disabled_at).limit(2))


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller of the public API: the holder of an API key."""

    credential: ClassVar = "key"

    account: Account
    key_id: str
    scopes: frozenset[str]
    key_name: str = ""


@dataclass(frozen=True, slots=True)
class Operator:
    """A caller of the admin API: the holder of an admin token."""

    credential: ClassVar = "token"

    token_id: str
    name: str
    scopes: frozenset[str]


# No account has this id; cached operators are stored under it.
_NOBODY = 0


@dataclass(frozen=True, slots=True)
class _Found:
    """The result of a look-up, its account, and when its credential expires (ms since 1970)."""

    value: Any
    account_id: int
    ends_at: int | None = None


class LastUse:
    """Collects when keys or tokens were last used (ms since 1970); a thread writes the times.

    Writing them in each request would cost more than the request. So stored times are exact to ten
    seconds, and a killed process loses the uses of its last ten seconds.
    """

    def __init__(
        self,
        database: Database,
        write: Callable[[Connection, dict[tuple[Any, ...], int]], None],
        *,
        every: float = _EVERY_SECONDS,
    ) -> None:
        self._database = database
        self._write = write
        self._every = every
        self._used: dict[tuple[Any, ...], int] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._writer: threading.Thread | None = None

    def note(self, key: tuple[Any, ...]) -> None:
        """The first call starts the thread."""
        with self._lock:
            self._used[key] = now_ms()
            if self._writer is None and not self._closed.is_set():
                self._writer = threading.Thread(target=self._run, name="last-use", daemon=True)
                self._writer.start()

    def flush(self) -> None:
        """Write the collected times now; while the database is unavailable, keep them."""
        with self._lock:
            used, self._used = self._used, {}
        if not used:
            return
        try:
            self._database.transact(lambda tx: self._write(tx, used))
        except Unavailable:
            _log.warning("The last use of keys was not written: the database is unavailable.")
            with self._lock:
                self._used = {**used, **self._used}

    def close(self) -> None:
        self._closed.set()
        if self._writer is not None:
            self._writer.join()
        self.flush()

    def _run(self) -> None:
        while not self._closed.wait(self._every):
            self.flush()


class Directory:
    """Only `by_client_id` and `by_id` find disabled accounts. Look-ups raise Unavailable."""

    def __init__(self, database: Database, plans: Mapping[str, Plan], ttl: float = _TTL) -> None:
        self._database = database
        self._plans = plans
        self._ttl = ttl
        self._remembered: dict[tuple[str, str], tuple[float, _Found]] = {}
        self._lock = threading.Lock()
        self._changes = 0
        self._last_use = LastUse(database, keys.note_use)
        self._last_use_of_tokens = LastUse(database, admin_tokens.note_use)

    def by_api_key(self, key: str) -> Caller | None:
        """Return the holder of a valid API key of an enabled account, else None."""
        if not key.isascii():
            return None
        hashed = digest(key)
        # The checksum costs more than the look-up of a remembered key.
        caller: Caller | None = self._find(
            "key", hashed, lambda: self._by_digest(hashed) if looks_like_api_key(key) else None
        )
        return caller

    def by_admin_token(self, token: str) -> Operator | None:
        if not looks_like_admin_token(token):
            return None
        hashed = digest(token)
        find = partial(self._by_token_digest, hashed)
        operator: Operator | None = self._find("admin_token", hashed, find)
        return operator

    def by_webhook_id(self, value: str) -> tuple[Account, Purpose] | None:
        """Generated webhook ids are accepted in upper and lower case.

        An alias can be guessed, so the caller must also check the webhook secret.
        """
        if not _ID.fullmatch(value):
            return None
        params = {"value": value, "lower": value.lower(), "now": now_ms()}
        found: tuple[Account, Purpose] | None = self._find(
            "webhook_id",
            value,
            lambda: self._routed(
                _BY_WEBHOOK_ID, params, lambda account, row: (account, row.purpose)
            ),
        )
        return found

    def by_secret(self, secret: str) -> Account | None:
        """Return the enabled account that has this valid webhook secret, else None."""
        if not _SECRET.fullmatch(secret):
            return None
        hashed = digest(secret)
        params = {"digest": hashed, "now": now_ms()}
        return self._account("secret", hashed, lambda: self._routed(_BY_SECRET, params))

    def only_account(self) -> Account | None:
        """Return the only account; None if it is disabled, or not the only one, even disabled."""
        return self._account("only", "", self._by_being_alone)

    def by_client_id(self, client_id: str) -> Account | None:
        """Even if it is disabled."""
        if not _ID.fullmatch(client_id):
            return None
        params = {"client_id": client_id}
        return self._account("client_id", client_id, lambda: self._routed(_BY_CLIENT_ID, params))

    def by_id(self, account_id: int) -> Account | None:
        """Even if it is disabled."""
        return self._account("id", str(account_id), lambda: self._by_id(account_id))

    def forget(self, account_id: int) -> None:
        """Delete an account from this process's cache, in a transaction once it has committed."""
        self._database.after_commit(lambda: self._forget(account_id))

    def _forget(self, account_id: int) -> None:
        with self._lock:
            self._changes += 1
            for key, (_, found) in list(self._remembered.items()):
                if found.account_id == account_id or key[0] == "only":
                    del self._remembered[key]

    def close(self) -> None:
        self._last_use.close()
        self._last_use_of_tokens.close()

    def _account(self, by: str, value: str, query: Callable[[], _Found | None]) -> Account | None:
        account: Account | None = self._find(by, value, query)
        return account

    def _find(self, by: str, value: str, query: Callable[[], _Found | None]) -> Any:
        """Return a cached result, or call `query`, without a lock, and cache what it finds."""
        # Read before the query, because its result may be as old as its beginning.
        now, changes = time.monotonic(), self._changes
        remembered = self._remembered.get((by, value))
        if remembered is not None and remembered[0] > now:
            return remembered[1].value
        found = query()
        if found is None:
            return None
        until = now + self._ttl
        if found.ends_at is not None:
            until = min(until, now + (found.ends_at - now_ms()) / 1000)
        with self._lock:
            # Else the row was read before a change that `forget` reported.
            if changes == self._changes:
                self._remembered.pop((by, value), None)
                if len(self._remembered) >= _SIZE:
                    del self._remembered[next(iter(self._remembered))]
                self._remembered[by, value] = (until, found)
        return found.value

    def _routed(
        self,
        statement: Statement,
        params: Mapping[str, Any],
        result: Callable[[Account, Any], object] = lambda account, _: account,
    ) -> _Found | None:
        """Run a statement whose row names an account."""
        with self._database.across_accounts(), self._database.reading() as db:
            route = db.row(statement, params)
            row = route and db.row(BY_ID, {"account_id": route.account_id})
        if not row:
            return None
        account = account_of(row, self._plans)
        return _Found(result(account, route), account.id, route.expires_at)

    def _by_id(self, account_id: int) -> _Found | None:
        with self._database.across_accounts(), self._database.reading() as db:
            row = db.row(BY_ID, {"account_id": account_id})
        return None if row is None else _Found(account_of(row, self._plans), account_id)

    def _by_digest(self, hashed: str) -> _Found | None:
        found = self._routed(
            _BY_KEY,
            {"digest": hashed, "now": now_ms()},
            lambda account, row: Caller(
                account, row.key_id, frozenset(keys.scopes_of(row.scopes)), row.key_name
            ),
        )
        if found is not None:
            # Often enough: a key in use is queried again whenever its cached row has expired.
            self._last_use.note((found.account_id, found.value.key_id))
        return found

    def _by_token_digest(self, hashed: str) -> _Found | None:
        with self._database.reading() as db:
            row = db.row(_BY_TOKEN, {"digest": hashed, "now": now_ms()})
        if row is None:
            return None
        operator = Operator(row.id, row.name, frozenset(admin_tokens.scopes_of(row.scopes)))
        self._last_use_of_tokens.note((row.id,))
        return _Found(operator, _NOBODY, row.expires_at)

    def _by_being_alone(self) -> _Found | None:
        with self._database.reading() as db:
            rows = db.rows(_FIRST_TWO)
        if len(rows) != 1 or rows[0].disabled_at is not None:
            return None
        return self._by_id(rows[0].id)
