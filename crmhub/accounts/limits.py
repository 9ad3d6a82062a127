"""Rate limits with moving windows, counted in Redis if Redis is configured.

Without Redis each server process enforces its share of a limit. While Redis is unavailable or slow,
the process does the same: calls stay limited, and none is refused because of Redis.
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

_FAILURES = Rate(60, 60)
# For all addresses behind one trusted proxy: if it passes on X-Forwarded-For unchecked, one caller
# can forge a new address for each guess.
_PROXY_FAILURES = Rate(300, 60)
_CRM_WEBHOOKS = Rate(100, 10)
# Sign-in attempts, see `Limits.sign_in`; high enough to be divided among several processes.
_OF_DEVICE = _OF_ADDRESS_AND_EMAIL = Rate(20, 300)
_OF_ADDRESS = Rate(100, 300)
_OF_EMAIL = Rate(200, 300)
# Codes of a second factor, of which three of a million are right at any time: at 10 guesses in 15
# minutes a guesser who knows the password needs a year, on average.
_CODES = Rate(10, 900)
# The timeout of a Redis call, and the pause after a failure.
_REDIS_SECONDS = 0.25
_RETRY_SECONDS = 5.0
# A window that ends this much too late was counted before the clock was set back, or on a host
# with a wrong clock.
_LATE_SECONDS = 60
_FORGET_SECONDS = 60
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RateStatus:
    """The answer of a limit, None without one; `reset_s`: seconds until further calls are allowed.

    `retry_after`: seconds, at least 1 for a refused call, 0 for an allowed one.
    """

    limit: int | None = None
    remaining: int = 0
    reset_s: int = 0
    allowed: bool = True
    retry_after: int = 0


_UNLIMITED = RateStatus()


class Limits:
    """`share`: by how many server processes each limit is divided without Redis."""

    def __init__(self, redis_url: str | None, share: int = 1, *, prefix: str = "crmhub") -> None:
        self._memory = MemoryStorage()
        self._local = _Windows(MovingWindowRateLimiter(self._memory), share)
        self._lock = threading.Lock()
        self._forget_at = 0.0
        self._shared: _Windows | None = None
        if redis_url:
            # The pool holds the address; RedisStorage uses only the scheme of this URL.
            pool = redis_pool(redis_url)
            storage = RedisStorage("redis://", connection_pool=pool, key_prefix=prefix)
            self._shared = _Windows(MovingWindowRateLimiter(storage), share=1)
            self._breaker = Breaker("limits are held locally", "limits are shared again")

    def hit(self, caller: Caller) -> RateStatus:
        """Return the tighter limit; a call that the key's limit refuses does not count for the
        account.
        """
        plan = caller.account.plan
        limits = [(f"account/{caller.account.id}", plan.rate_limit)]
        if plan.key_rate_limit is not None:
            limits.insert(0, (f"key/{caller.account.id}/{caller.key_id}", plan.key_rate_limit))
        return self._hit(limits)

    def hit_account(self, account: Account) -> RateStatus:
        """For a call without an API key."""
        return self._hit([(f"account/{account.id}", account.plan.rate_limit)])

    def hit_crm_webhook(self, account: Account) -> RateStatus:
        """For a webhook of the account's CRM, whose records the hub also finds without it."""
        return self._hit([(f"crm-webhook/{account.id}", _CRM_WEBHOOKS)])

    def miss(self, address: str, proxy: str = "") -> RateStatus:
        """For an unknown account, or a wrong credential. `proxy`: the trusted one that forwarded
        it, or "".
        """
        limits: list[tuple[str, Rate | None]] = [(f"miss/{network_of(address)}", _FAILURES)]
        if proxy:
            limits.append((f"miss-through/{proxy}", _PROXY_FAILURES))
        return self._hit(limits)

    def sign_in(self, address: str, email: str, device: str = "") -> RateStatus:
        """Count an attempt to sign in to the console.

        The guesses of other people must not lock an operator out. So a browser in which this user
        has signed in since the password was set sends a token, `device`, and only the limit of this
        token applies.

        Other attempts count under a low limit for the address with the email, a higher one for the
        address, and the highest for the email. A single guesser exhausts the first and is refused
        before the others count. Only guesses from the operator's own address, or from ten or more
        addresses, delay new browsers of the operator.
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

    def second_factor(self, user_id: str, device: str = "") -> RateStatus:
        """A browser with a `device` (as for `sign_in`) has a limit of its own, so someone who knows
        the password cannot keep the user out.
        """
        whose = digest(device) if device else "others"
        return self._hit([(f"code/{user_id}/{whose}", _CODES)])

    def _hit(self, limits: list[tuple[str, Rate | None]]) -> RateStatus:
        limited = [(name, rate) for name, rate in limits if rate is not None]
        if not limited:
            return _UNLIMITED
        if (shared := self._shared) is not None:
            status = self._breaker.attempt(lambda: shared.hit(limited))
            if status is not None:
                return status
        with self._lock:
            if time.monotonic() >= self._forget_at:
                self._forget_idle_callers()
            return self._local.hit(limited)

    def _forget_idle_callers(self) -> None:
        """Delete from memory the counters of callers without recent calls.

        MemoryStorage (limits 5.8) keeps all counters and scans them after each call: after calls
        from 100,000 addresses, 50 calls a second used half a CPU permanently.
        """
        self._forget_at = time.monotonic() + _FORGET_SECONDS
        for name, calls in list(self._memory.events.items()):
            if not calls:
                self._memory.events.pop(name, None)


class _Windows:
    def __init__(self, limiter: MovingWindowRateLimiter, share: int) -> None:
        self._limiter = limiter
        self._share = share

    def hit(self, limits: list[tuple[str, Rate]]) -> RateStatus:
        """Count a call under several named limits, in order, up to one that refuses it."""
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
    """After a failure Redis is not used for some seconds.

    `without` and `again` end the log lines about an outage.
    """

    def __init__(self, without: str, again: str) -> None:
        import redis

        self._failures: type[Exception] = redis.RedisError
        self._without = without
        self._again = again
        self._lock = threading.Lock()
        self._unavailable_until = 0.0

    def attempt(self, work: Callable[[], T]) -> T | None:
        """Return the result of `work`, None while Redis is unavailable."""
        if self._unavailable_until and not self._may_probe():
            return None
        try:
            result = work()
        except self._failures as exc:
            if not self._unavailable_until:
                # Only the type: the text may contain the address and a password.
                _log.warning("Redis is unavailable (%s); %s.", type(exc).__name__, self._without)
            self._unavailable_until = time.monotonic() + _RETRY_SECONDS
            return None
        if self._unavailable_until:
            _log.warning("Redis is back; %s.", self._again)
            self._unavailable_until = 0.0
        return result

    def _may_probe(self) -> bool:
        """Return whether this call may test Redis: one in every few seconds of an outage."""
        now = time.monotonic()
        with self._lock:
            if now < self._unavailable_until:
                return False
            self._unavailable_until = now + _RETRY_SECONDS
            return True


def redis_pool(url: str) -> ConnectionPool:
    """With short timeouts and no retries."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    return redis.ConnectionPool.from_url(
        url,
        socket_timeout=_REDIS_SECONDS,
        socket_connect_timeout=_REDIS_SECONDS,
        retry=Retry(NoBackoff(), 0),
    )


def network_of(address: str) -> str:
    """The /64 network of an IPv6 address, unless IPv4 is mapped into it; other texts unchanged."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address):
        return address
    return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))
