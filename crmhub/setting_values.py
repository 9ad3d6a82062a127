"""Parsers for the values of settings, which come from environment variables or the TOML file.

They raise ValueError, whose message continues a sentence that begins with the setting's name.
Messages about addresses and keys do not repeat the value, which may contain a password.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import time
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from crmhub import durations
from crmhub.secrets import (
    EncryptionKey,
    WebhookSecret,
    parse_encryption_keys,
    parse_webhook_secret,
)

Network = IPv4Network | IPv6Network
Parser = Callable[[Any], Any]
SECRET_KEY_LENGTH = 32


def text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError("is not text; put it in quotes")
    return raw.strip()


def choice(*allowed: str) -> Parser:
    """In any case of letters."""

    def parse(raw: Any) -> str:
        chosen = text(raw).lower()
        if chosen not in allowed:
            raise ValueError(f"{_shown(raw)} is not one of {', '.join(allowed)}")
        return chosen

    return parse


def whole(smallest: int, largest: int) -> Parser:
    noun = f"whole number from {smallest} to {largest}"
    return _number(int, r"[0-9]{1,9}", noun, smallest, largest)


def seconds(smallest: float, largest: float) -> Parser:
    """Decimals allowed."""
    noun = f"number of seconds from {smallest:g} to {largest:g}"
    return _number(float, r"[0-9]{1,9}(\.[0-9]{1,9})?", noun, smallest, largest)


def _number(
    convert: type[int] | type[float], pattern: str, noun: str, smallest: float, largest: float
) -> Parser:
    def parse(raw: Any) -> float:
        is_text = isinstance(raw, str) and re.fullmatch(rf"\s*{pattern}\s*", raw)
        number = convert(raw) if is_text else raw
        # Not isinstance, since a bool is an int.
        if type(number) not in (int, convert) or not smallest <= number <= largest:
            raise ValueError(f"{_shown(raw)} is not a {noun}")
        return convert(number)

    return parse


def duration(raw: Any) -> int:
    """Such as 10m; in milliseconds."""
    milliseconds = durations.milliseconds(text(raw))
    if not milliseconds:
        raise ValueError(f"{_shown(raw)} is not a time; give {durations.FORM}")
    return milliseconds


def hours(raw: Any) -> tuple[time, time]:
    """Two times of day, such as 22:00-07:00."""
    try:
        begin, end = (
            time.fromisoformat(each.strip().zfill(5)) for each in re.split("[-–]", text(raw))
        )
    except ValueError:
        raise ValueError(f"{_shown(raw)} is not of the form 22:00-07:00") from None
    if begin == end:
        raise ValueError(f"{_shown(raw)} is no time at all; give two different times of day")
    return begin, end


def time_zone(raw: Any) -> ZoneInfo:
    name = text(raw)
    try:
        return ZoneInfo(name)
    # OSError: for the name of a directory of the database of time zones.
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"{_shown(raw)} is not a time zone; give a name such as Europe/Berlin or UTC"
        ) from None


def email_address(raw: Any) -> str:
    address = text(raw)
    if not re.fullmatch(r"[^\s@,;<>\"]+@[^\s@,;<>\"]+", address) or not address.isprintable():
        raise ValueError(f"{_shown(raw)} is not an email address, such as hub@example.com")
    return address


def email_addresses(raw: Any) -> tuple[str, ...]:
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list):
        raise ValueError(
            f'{_shown(raw)} is not a list of email addresses, such as ["a@example.com"]'
        )
    return tuple(email_address(item) for item in items)


def path(raw: Any) -> Path:
    return Path(text(raw))


def host(raw: Any) -> str:
    """Without a port."""
    name = text(raw)
    if not re.fullmatch(r"[A-Za-z0-9_.:%-]+", name) or re.fullmatch(r"[^:]+:[0-9]+", name):
        raise ValueError(
            f"{_shown(raw)} is not a host; give an address or a name without a port, "
            "such as 127.0.0.1, or 0.0.0.0 for every interface"
        )
    return name


def networks(raw: Any) -> tuple[Network, ...]:
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list):
        raise ValueError(f'{_shown(raw)} is not a list of networks, such as ["127.0.0.0/8"]')
    parsed, faults = [], []
    for item in items:
        try:
            parsed.append(_network(item))
        except ValueError as exc:
            faults.append(str(exc))
    if faults:
        raise ValueError(", and ".join(faults))
    return tuple(parsed)


def _network(raw: Any) -> Network:
    address = text(raw)
    try:
        return ip_network(address)
    except ValueError:
        pass
    try:
        remedy = f"its network is {ip_network(address, strict=False)}"
    except ValueError:
        remedy = "give an address or a network, such as 10.0.0.1 or 10.0.0.0/8"
    raise ValueError(f"{_shown(address)} is not a network; {remedy}")


def _shown(raw: Any) -> str:
    shown = repr(raw)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


# --- secrets -----------------------------------------------------------------------------------


def secret_key(raw: Any) -> str:
    """At least 32 characters."""
    key = text(raw)
    if len(key) < SECRET_KEY_LENGTH:
        raise ValueError(
            f"has {len(key)} characters; give at least {SECRET_KEY_LENGTH} random ones"
        )
    return key


def encryption_keys(raw: Any) -> tuple[EncryptionKey, ...]:
    items = raw if isinstance(raw, list) else [raw]
    return parse_encryption_keys(",".join(text(item) for item in items))


def webhook_secret(raw: Any) -> WebhookSecret:
    return parse_webhook_secret(text(raw))


# --- addresses, which may contain a password ---------------------------------------------------


def web_url(raw: Any) -> str:
    url = text(raw)
    if not url.startswith(("https://", "http://")) or not _hostname(url):
        raise ValueError("is not the address of a webhook; give https://host/path")
    return url


def public_url(raw: Any) -> str:
    """Without a slash at its end; no path."""
    url = text(raw).rstrip("/")
    scheme, separator, host = url.partition("://")
    if (
        not separator
        or scheme not in ("https", "http")
        or not _hostname(url)
        or set(host) & set("/?#@")
    ):
        raise ValueError("is not the address of this service; give https://host, without a path")
    return url


def issuer(raw: Any) -> str:
    url = text(raw)
    if not url.startswith(("https://", "http://")) or not _hostname(url) or "?" in url:
        raise ValueError("is not an issuer of OpenID Connect; give https://host/path")
    return url


def database_url(raw: Any) -> str:
    """In SQLAlchemy's form; the driver checks the options."""
    scheme, separator, rest = text(raw).partition("://")
    if separator and scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        _hostname(f"postgresql://{rest}")
        return _accepted_by_driver(f"postgresql+psycopg://{rest}")
    if separator and scheme == "sqlite":
        if not rest.startswith("/") or rest.strip("/") in ("", ":memory:"):
            raise ValueError(
                "names no file, and a database in memory cannot be shared between processes; "
                "give sqlite:///path/to/crmhub.db"
            )
        return _accepted_by_driver(f"sqlite://{rest}")
    raise ValueError(
        "is not the address of a database; "
        "give postgresql://user:password@host:5432/name or sqlite:///path/to/crmhub.db"
    )


def _accepted_by_driver(url: str) -> str:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
        _, options = parsed.get_dialect()().create_connect_args(parsed)
        if parsed.get_backend_name() == "postgresql":
            import psycopg

            try:
                psycopg.conninfo.make_conninfo(**options)
            except psycopg.Error as exc:
                raise ValueError from exc
    except (ArgumentError, ValueError):
        # The driver's message may show parts of the password.
        raise ValueError(
            "has options that the driver of its database does not take; "
            "correct what stands behind the ?, as in ?sslmode=require for PostgreSQL"
        ) from None
    return url


def redis_url(raw: Any) -> str:
    """The driver has checked the options."""
    url = text(raw)
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("redis", "rediss", "unix"):
        raise ValueError(
            "is not the address of a Redis; give redis://host:6379/0, rediss:// for TLS"
        )
    if scheme == "unix" and not rest.lstrip().startswith("/"):
        raise ValueError("names no socket; give unix:///path/to/redis.sock")
    if scheme != "unix" and not _hostname(url):
        raise ValueError("names no host; give redis://host:6379/0")
    import redis

    try:
        redis.ConnectionPool.from_url(url).make_connection()
    except (TypeError, ValueError, redis.RedisError):
        raise ValueError(
            "has options that the driver of Redis does not take; "
            "correct what stands behind the ?, and give rediss:// for those of TLS"
        ) from None
    return url


def _hostname(url: str) -> str | None:
    """Raises a ValueError without the URL, unlike `urlsplit`: it may contain a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        parts = None
    if (
        parts is None
        or parts.fragment
        or parts.netloc.count("@") > 1
        or "@" in parts.path + parts.query
    ):
        raise ValueError(
            "cannot be read as an address; write : / ? # [ ] @ in the password "
            "percent-encoded (# as %23), and the port as a number"
        )
    return parts.hostname
