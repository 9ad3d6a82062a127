"""How often somebody may call: moving windows, in Redis when there is one.

Without Redis each server process holds its share of a limit. While Redis is away or stalls, the
process does the same, so that nobody is let through unmetered and nobody is shut out.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, TypeVar

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage, RedisStorage
from limits.strategies import MovingWindowRateLimiter

from crmhub.accounts.accounts import Account
from crmhub.accounts.directory import Caller
from crmhub.accounts.plans import Rate
from crmhub.secrets import digest

if TYPE_CHECKING:
    from redis import ConnectionPool

T = TypeVar("T")

_MISSES = Rate(60, 60)
# Of all addresses behind one trusted proxy: where it passes on what its callers write into
# X-Forwarded-For, one caller may choose a new address for each miss.
_MISSES_OF_PROXY = Rate(300, 60)
# Attempts to sign in, see `Limits.sign_in`. Each process holds its share: many enough for several.
_OF_DEVICE = _OF_ADDRESS_AND_EMAIL = Rate(20, 300)
_OF_ADDRESS = Rate(100, 300)
_OF_EMAIL = Rate(200, 300)
# A request waits this long for Redis, and after a failure none does for a while.
_REDIS_SECONDS = 0.25
_RETRY_SECONDS = 5.0
# A window that ends later than that was counted before the clock was set back, or on a host
# whose clock is as wrong.
_LATE_SECONDS = 60
_FORGET_SECONDS = 60
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RateStatus:
    """What became of a call under a limit; without a limit `limit` is None and all is allowed.

    `reset_s` and `retry_after` are seconds: until the window gives something back, and until
    another try makes sense (at least 1 when the call is not allowed, else 0).
    """

    limit: int | None = None
    remaining: int = 0
    reset_s: int = 0
    allowed: bool = True
    retry_after: int = 0

    @property
    def headers(self) -> dict[str, str]:
        """The RateLimit headers of the answer; none where there is no limit."""
        if self.limit is None:
            return {}
        return {
            "RateLimit-Limit": str(self.limit),
            "RateLimit-Remaining": str(self.remaining),
            "RateLimit-Reset": str(self.reset_s),
        }


_UNLIMITED = RateStatus()


class Limits:
    """Counts calls of accounts, keys and addresses.

    `share` is the number of server processes among which a limit is divided while it is not
    counted in Redis. `prefix` starts the names of the keys in Redis.
    """

    def __init__(self, redis_url: str | None, share: int = 1, *, prefix: str = "crmhub") -> None:
        self._local = _Windows(MovingWindowRateLimiter(_Memory()), share)
        self._redis = _Redis(redis_url, prefix) if redis_url else None

    def hit(self, caller: Caller) -> RateStatus:
        """Count a call with an API key, under the limits of the key and of its account.

        Returns the tighter of the two. A call that the key's limit stops is not counted for the
        account.
        """
        plan = caller.account.plan
        limits = [(f"account/{caller.account.id}", plan.rate_limit)]
        if plan.key_rate_limit is not None:
            limits.insert(0, (f"key/{caller.account.id}/{caller.key_id}", plan.key_rate_limit))
        return self._hit(limits)

    def hit_account(self, account: Account) -> RateStatus:
        """Count a call without a key under the account's limit."""
        return self._hit([(f"account/{account.id}", account.plan.rate_limit)])

    def miss(self, address: str, proxy: str = "") -> RateStatus:
        """Count a call from `address` that found no account, or had a wrong key, secret or token.

        `proxy` is the address of the trusted proxy that the call came through, if any.
        """
        limits: list[tuple[str, Rate | None]] = [(f"miss/{network_of(address)}", _MISSES)]
        if proxy:
            limits.append((f"miss-through/{proxy}", _MISSES_OF_PROXY))
        return self._hit(limits)

    def sign_in(self, address: str, email: str, device: str = "") -> RateStatus:
        """Count an attempt to sign in to the console from `address` as `email`.

        A password can be guessed, so attempts are limited; and nobody's guesses may keep an
        operator out. So a browser from which this user has signed in before, since the password
        was set, brings a `device` token, and has a limit of its own alone: whoever guesses,
        from wherever, it gets in. All other attempts share three limits: few for an address with
        an email, more for an address with whatever emails, most for an email from whatever
        addresses. One guesser uses up the first and is refused there, before the others count
        it: the operator gets in from another address with any browser. Who guesses from the
        operator's own address, or from ten and more addresses at once, is slowed at the price
        that new browsers (of that address, or of that email) wait with them. A session that
        has begun goes on: only attempts are counted.
        """
        if device:
            return self._hit([(f"sign-in-of/{digest(device)}", _OF_DEVICE)])
        network, who = network_of(address), digest(email)
        return self._hit(
            [
                (f"sign-in/{network}/{who}", _OF_ADDRESS_AND_EMAIL),
                (f"sign-in-from/{network}", _OF_ADDRESS),
                (f"sign-in-as/{who}", _OF_EMAIL),
            ]
        )

    def _hit(self, limits: list[tuple[str, Rate | None]]) -> RateStatus:
        given = [(name, rate) for name, rate in limits if rate is not None]
        if not given:
            return _UNLIMITED
        if self._redis is not None:
            status = self._redis.hit(given)
            if status is not None:
                return status
        return self._local.hit(given)


class _Memory(MemoryStorage):
    """Windows in memory, which forget who has not called for a while.

    MemoryStorage (limits 5.8) empties a window and keeps its key, and looks through all keys after
    each call: once 100,000 addresses had called, 50 calls a second took half a processor for ever.
    """

    def __init__(self) -> None:
        super().__init__()
        self._calling = threading.Lock()
        self._look_at = 0.0

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        with self._calling:
            if time.monotonic() >= self._look_at:
                self._look_at = time.monotonic() + _FORGET_SECONDS
                for gone in [name for name, calls in list(self.events.items()) if not calls]:
                    self.events.pop(gone, None)
            return super().acquire_entry(key, limit, expiry, amount)


class _Windows:
    """Moving windows in one storage, each limit divided by `share`."""

    def __init__(self, limiter: MovingWindowRateLimiter, share: int) -> None:
        self._limiter = limiter
        self._share = share

    def hit(self, limits: list[tuple[str, Rate]]) -> RateStatus:
        """Count a call under each limit until one stops it; return the tightest."""
        statuses = []
        for name, rate in limits:
            count = max(1, rate.count // self._share)
            item = RateLimitItemPerSecond(count, rate.seconds)
            allowed = self._limiter.hit(item, name)
            reset, remaining = self._limiter.get_window_stats(item, name)
            wait = max(0, math.ceil(reset - time.time()))
            if not allowed and wait > rate.seconds + _LATE_SECONDS:
                self._limiter.clear(item, name)
                allowed, remaining, wait = self._limiter.hit(item, name), count - 1, rate.seconds
            if not allowed:
                return RateStatus(count, 0, wait, allowed=False, retry_after=max(1, wait))
            statuses.append(RateStatus(count, max(0, remaining), wait))
        return min(statuses, key=lambda status: status.remaining)


class Breaker:
    """Leaves Redis alone for a few seconds after each failure, and tells of it once.

    `without` and `again` say what that means for the hub, in the words of a log line.
    """

    def __init__(self, without: str, again: str) -> None:
        import redis

        self._failures: type[Exception] = redis.RedisError
        self._without = without
        self._again = again
        self._lock = threading.Lock()
        self._away_until = 0.0

    def attempt(self, work: Callable[[], T]) -> T | None:
        """Return what `work` returns, or None when Redis is away."""
        if self._away_until and not self._try_again():
            return None
        try:
            result = work()
        except self._failures as exc:
            if not self._away_until:
                # The type alone: the text may name the address, and with it a password.
                _log.warning("Redis is away (%s); %s.", type(exc).__name__, self._without)
            self._away_until = time.monotonic() + _RETRY_SECONDS
            return None
        if self._away_until:
            _log.warning("Redis is back; %s.", self._again)
            self._away_until = 0.0
        return result

    def _try_again(self) -> bool:
        """Return whether this call may find out if Redis is back; one in a while may."""
        now = time.monotonic()
        with self._lock:
            if now < self._away_until:
                return False
            self._away_until = now + _RETRY_SECONDS
            return True


def redis_pool(url: str) -> ConnectionPool:
    """Return connections to Redis for which a request waits no longer than a moment."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.ConnectionPool.from_url(
        url,
        socket_timeout=_REDIS_SECONDS,
        socket_connect_timeout=_REDIS_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


class _Redis:
    """Windows in Redis, as long as it is there."""

    def __init__(self, url: str, prefix: str) -> None:
        # The pool knows the address; of the one given here only the scheme counts.
        storage = RedisStorage("redis://", connection_pool=redis_pool(url), key_prefix=prefix)
        self._windows = _Windows(MovingWindowRateLimiter(storage), share=1)
        self._breaker = Breaker("limits are held locally", "limits are shared again")

    def hit(self, limits: list[tuple[str, Rate]]) -> RateStatus | None:
        """Count a call, or return None when Redis is away."""
        return self._breaker.attempt(lambda: self._windows.hit(limits))


def network_of(address: str) -> str:
    """Return the address, of IPv6 its /64, since a caller there has all of it."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))
