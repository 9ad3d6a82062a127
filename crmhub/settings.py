"""Everything an operator can set, read once at the start.

The environment (`CRMHUB_PORT`) wins over the file (`port` in config/crmhub.toml), the file over
the default. An empty value counts as not given. Values that may hold a password are never shown,
neither in messages nor in `repr`.
"""

from __future__ import annotations

import difflib
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from crmhub import durations
from crmhub.secrets import (
    EncryptionKey,
    WebhookSecret,
    new_encryption_key,
    new_secret,
    parse_encryption_keys,
    parse_webhook_secret,
)

Network = IPv4Network | IPv6Network

PREFIX = "CRMHUB_"
# Where the test suite finds its databases; no setting of the service.
_NOT_OURS = "CRMHUB_TEST_"
_CONFIG = Path("config/crmhub.toml")
_PLANS = Path("config/plans.toml")
_SQLITE = "sqlite:///var/crmhub.db"
_SECRET_KEY_LENGTH = 32


class SettingsError(Exception):
    """The service cannot start like this; `problems` holds one sentence for each fault."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a file of settings, plans or accounts holds; raises SettingsError."""
    try:
        # With the byte order mark that editors of Windows put first, or without.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as exc:
        raise SettingsError([f"{path}: cannot be read as TOML in UTF-8: {exc}."]) from exc


# Readers take a value as the environment or TOML gives it and return it cast and checked.
# What they raise says what is wrong and what would be right; `load` adds the name and the source.


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise ValueError("is not text; put it in quotes")
    return raw.strip()


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def read(raw: Any) -> str:
        text = _text(raw).lower()
        if text not in allowed:
            raise ValueError(f"{_shown(raw)} is not one of {', '.join(allowed)}")
        return text

    return read


def _whole(smallest: int, largest: int) -> Callable[[Any], int]:
    def read(raw: Any) -> int:
        number = (
            int(raw) if isinstance(raw, str) and re.fullmatch(r"\s*[0-9]{1,9}\s*", raw) else raw
        )
        if type(number) is not int or not smallest <= number <= largest:
            raise ValueError(f"{_shown(raw)} is not a whole number from {smallest} to {largest}")
        return number

    return read


def _seconds(smallest: float, largest: float) -> Callable[[Any], float]:
    def read(raw: Any) -> float:
        number = raw
        if isinstance(raw, str) and re.fullmatch(r"\s*[0-9]{1,9}(\.[0-9]{1,9})?\s*", raw):
            number = float(raw)
        if type(number) not in (int, float) or not smallest <= number <= largest:
            raise ValueError(
                f"{_shown(raw)} is not a number of seconds from {smallest:g} to {largest:g}"
            )
        return float(number)

    return read


def _host(raw: Any) -> str:
    text = _text(raw)
    if not re.fullmatch(r"[A-Za-z0-9_.:%-]+", text) or re.fullmatch(r"[^:]+:[0-9]+", text):
        raise ValueError(
            f"{_shown(raw)} is not a host; give an address or a name without a port, "
            "such as 127.0.0.1, or 0.0.0.0 for every interface"
        )
    return text


def _networks(raw: Any) -> tuple[Network, ...]:
    items = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(items, list):
        raise ValueError(f'{_shown(raw)} is not a list of networks, such as ["127.0.0.0/8"]')
    networks, faults = [], []
    for item in items:
        try:
            networks.append(_network(item))
        except ValueError as exc:
            faults.append(str(exc))
    if faults:
        raise ValueError(", and ".join(faults))
    return tuple(networks)


def _network(raw: Any) -> Network:
    text = _text(raw)
    try:
        return ip_network(text)
    except ValueError:
        pass
    try:
        right = f"its network is {ip_network(text, strict=False)}"
    except ValueError:
        right = "give an address or a network, such as 10.0.0.1 or 10.0.0.0/8"
    raise ValueError(f"{_shown(text)} is not a network; {right}")


def _path(raw: Any) -> Path:
    return Path(_text(raw))


def _database_url(raw: Any) -> str:
    scheme, separator, rest = _text(raw).partition("://")
    if separator and scheme in ("postgres", "postgresql", "postgresql+psycopg"):
        _check_server_url(f"postgresql://{rest}")
        return _known_to_driver(f"postgresql+psycopg://{rest}")
    if separator and scheme == "sqlite":
        if not rest.startswith("/") or rest.strip("/") in ("", ":memory:"):
            raise ValueError(
                "names no file, and a database in memory cannot be shared between processes; "
                "give sqlite:///path/to/crmhub.db"
            )
        return _known_to_driver(f"sqlite://{rest}")
    raise ValueError(
        "is not the address of a database; "
        "give postgresql://user:password@host:5432/name or sqlite:///path/to/crmhub.db"
    )


def _known_to_driver(url: str) -> str:
    """Return the URL, whose options its driver takes."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
        _, options = parsed.get_dialect()().create_connect_args(parsed)
        if parsed.get_backend_name() == "postgresql":
            _check_libpq(options)
    except (ArgumentError, ValueError):
        # The driver's words may show parts of the password.
        raise ValueError(
            "has options that the driver of its database does not take; "
            "correct what stands behind the ?, as in ?sslmode=require for PostgreSQL"
        ) from None
    return url


def _check_libpq(options: Mapping[str, Any]) -> None:
    import psycopg

    try:
        psycopg.conninfo.make_conninfo(**options)
    except psycopg.Error as exc:
        raise ValueError from exc


def _redis_url(raw: Any) -> str:
    text = _text(raw)
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in ("redis", "rediss", "unix"):
        raise ValueError(
            "is not the address of a Redis; give redis://host:6379/0, rediss:// for TLS"
        )
    if scheme == "unix" and not rest.lstrip().startswith("/"):
        raise ValueError("names no socket; give unix:///path/to/redis.sock")
    if scheme != "unix" and not _check_server_url(text):
        raise ValueError("names no host; give redis://host:6379/0")
    _check_redis(text)
    return text


def _check_redis(url: str) -> None:
    import redis

    try:
        # Connects to nothing, but takes or refuses each option.
        redis.ConnectionPool.from_url(url).make_connection()
    except (TypeError, ValueError, redis.RedisError):
        raise ValueError(
            "has options that the driver of Redis does not take; "
            "correct what stands behind the ?, and give rediss:// for those of TLS"
        ) from None


def _check_server_url(url: str) -> str | None:
    """Return the host, if any; the ValueErrors of urlsplit would show parts of the password."""
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


def _secret_key(raw: Any) -> str:
    text = _text(raw)
    if len(text) < _SECRET_KEY_LENGTH:
        raise ValueError(
            f"has {len(text)} characters; give at least {_SECRET_KEY_LENGTH} random ones"
        )
    return text


def _encryption_keys(raw: Any) -> tuple[EncryptionKey, ...]:
    items = raw if isinstance(raw, list) else [raw]
    return parse_encryption_keys(",".join(_text(item) for item in items))


def _web_url(raw: Any) -> str:
    text = _text(raw)
    if not text.startswith(("https://", "http://")) or not _check_server_url(text):
        # Not repeated: such addresses may hold a secret.
        raise ValueError("is not the address of a webhook; give https://host/path")
    return text


def _webhook_secret(raw: Any) -> WebhookSecret:
    return parse_webhook_secret(_text(raw))


def _duration_ms(raw: Any) -> int:
    found = durations.milliseconds(_text(raw))
    if not found:
        raise ValueError(f"{_shown(raw)} is not a time; give {durations.FORM}")
    return found


def _shown(raw: Any) -> str:
    text = repr(raw)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _read_by(reader: Callable[[Any], Any]) -> dict[str, Any]:
    return {"reader": reader}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator decided. `Settings.load` reads it; tests may build it by hand.

    Every field with a reader is a setting: its name in upper case after `CRMHUB_` in the
    environment, its name as it is in the file.
    """

    root: Path
    """Where `var/` and relative paths start: the directory the service was started in."""
    config: Path | None = None
    """The file that was read, if any (only from the environment: `CRMHUB_CONFIG`)."""

    env: Literal["development", "production"] = field(
        default="development", metadata=_read_by(_one_of("development", "production"))
    )
    database_url: str = field(repr=False, metadata=_read_by(_database_url))
    """For SQLAlchemy: `postgresql+psycopg://…`, or `sqlite:///` and an absolute path."""
    redis_url: str | None = field(default=None, repr=False, metadata=_read_by(_redis_url))
    secret_key: str = field(repr=False, metadata=_read_by(_secret_key))
    """Signs cursors and sessions; use it through `secrets.derive` only."""
    encryption_keys: tuple[EncryptionKey, ...] = field(
        repr=False, metadata=_read_by(_encryption_keys)
    )
    """Seal stored credentials; the first is the active one (see `secrets.Vault`)."""
    egress_allow: tuple[Network, ...] = field(default=(), metadata=_read_by(_networks))
    """Networks that outgoing calls may reach although they are not public."""
    trusted_proxies: tuple[Network, ...] = field(default=(), metadata=_read_by(_networks))
    """Whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed."""
    plans: Path | None = field(default=None, metadata=_read_by(_path))
    """The file of plans; None means the built-in ones."""
    alert_url: str | None = field(default=None, repr=False, metadata=_read_by(_web_url))
    """Where alerts go (`actions.alerts`); None sends none."""
    alert_secret: WebhookSecret | None = field(
        default=None, repr=False, metadata=_read_by(_webhook_secret)
    )
    """Signs the alerts."""
    alert_queue_age: int = field(default=600_000, metadata=_read_by(_duration_ms))
    """How old the oldest queued action may become before that is told of (ms)."""
    search_timeout_s: float = field(default=5.0, metadata=_read_by(_seconds(0.1, 3600)))
    """How long a search or list may keep the database busy before it is stopped."""
    host: str = field(default="127.0.0.1", metadata=_read_by(_host))
    port: int = field(default=8080, metadata=_read_by(_whole(1, 65535)))
    workers: int = field(default=2, metadata=_read_by(_whole(1, 256)))
    threads: int = field(default=16, metadata=_read_by(_whole(1, 4096)))
    read_timeout_s: int = field(default=30, metadata=_read_by(_whole(1, 600)))
    """How long a request may take to come as a whole, from its first byte on."""
    connections_per_address: int = field(default=256, metadata=_read_by(_whole(1, 65535)))
    """How many slow or idle connections of one address each server process holds."""
    log_level: Literal["debug", "info", "warning", "error"] = field(
        default="info", metadata=_read_by(_one_of("debug", "info", "warning", "error"))
    )

    @property
    def var(self) -> Path:
        """The directory for what the service itself keeps: its SQLite file, development's keys."""
        return self.root / "var"

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, root: Path | None = None) -> Settings:
        """Return the settings of this process (or of `environ` and the directory `root`).

        Makes `var/` and, in development, the secrets kept there, when they are needed and
        missing. Raises SettingsError with every fault that was found.
        """
        try:
            here = (root or Path.cwd()).resolve()
        except FileNotFoundError:
            raise SettingsError(
                ["The directory that crmhub is started in is gone; start it in another one."]
            ) from None
        source = _Source(os.environ if environ is None else environ, here)
        values = {name: source.value(name, reader) for name, reader in _readers().items()}
        values["plans"] = source.plans(values["plans"])
        values["database_url"] = source.database_url(values["database_url"])
        for name in _MADE_SECRET:
            if not source.given(name):
                values[name] = source.secret(name, values["env"])
        source.together("alert_url", "alert_secret")
        if source.problems:
            raise SettingsError(source.problems)
        given = {name: value for name, value in values.items() if value is not None}
        return cls(root=source.root, config=source.config, **given)


def _readers() -> dict[str, Callable[[Any], Any]]:
    settings: tuple[Field[Any], ...] = fields(Settings)
    return {one.name: one.metadata["reader"] for one in settings if "reader" in one.metadata}


class _Source:
    """The environment and the file of one `load`, and the faults found in them."""

    def __init__(self, environ: Mapping[str, str], root: Path) -> None:
        self.root = root
        self.problems: list[str] = []
        self._environ = {
            name: value
            for name, value in environ.items()
            if name.startswith(PREFIX) and not name.startswith(_NOT_OURS) and value.strip()
        }
        self.config = self._existing(
            self._environ.pop(f"{PREFIX}CONFIG", None), _CONFIG, f"{PREFIX}CONFIG (environment)"
        )
        self._file = self._read_file()
        self._refuse_unknown()

    def _read_file(self) -> dict[str, Any]:
        if self.config is None:
            return {}
        try:
            values = read_toml(self.config)
        except SettingsError as exc:
            self.problems += exc.problems
            return {}
        return {name: value for name, value in values.items() if value not in ("", [])}

    def _refuse_unknown(self) -> None:
        names = list(_readers())
        known = [_variable(name) for name in [*names, "config"]]
        for variable in sorted(self._environ.keys() - known):
            near = _nearest(variable.removeprefix(PREFIX).lower(), [*names, "config"])
            hint = f"did you mean {_variable(near)}?" if near else "remove it."
            self.problems.append(f"{variable} (environment): there is no such setting; {hint}")
        for name in sorted(self._file.keys() - names):
            near = _nearest(name, names)
            hint = f"did you mean {near}?" if near else "remove it."
            if name == "config":
                hint = f"it is given as {PREFIX}CONFIG."
            self.problems.append(f"{name} ({self.config}): there is no such setting; {hint}")

    def given(self, name: str) -> bool:
        """Return whether the setting is given at all, right or wrong."""
        return _variable(name) in self._environ or name in self._file

    def together(self, name: str, other: str) -> None:
        """Note a fault where only one of two settings is given."""
        if self.given(name) != self.given(other):
            there, missing = (name, other) if self.given(name) else (other, name)
            self.problems.append(f"{self._where(there)}: needs {_variable(missing)} beside it.")

    def _where(self, name: str) -> str:
        if _variable(name) in self._environ:
            return f"{_variable(name)} (environment)"
        return f"{name} ({self.config})"

    def value(self, name: str, reader: Callable[[Any], Any]) -> Any:
        """Return the setting as given, or None when it is not given or faulty."""
        if not self.given(name):
            return None
        try:
            return reader(self._environ.get(_variable(name)) or self._file[name])
        except ValueError as exc:
            self.problems.append(f"{self._where(name)}: {exc}.")
            return None

    def plans(self, given: Path | None) -> Path | None:
        """Return the file of plans, or None when none is given and none in its usual place."""
        return self._existing(given, _PLANS, self._where("plans"))

    def _existing(self, given: str | Path | None, usual: Path, where: str) -> Path | None:
        # Path.expanduser raises where a home is not known; this leaves it as it is.
        path = self.root / os.path.expanduser(given or usual)
        try:
            if path.is_file():
                return path
        except OSError as exc:
            # Also where none is given: what cannot be seen may say that this is production.
            before = f"{where}: " if given else ""
            self.problems.append(before + _out_of_reach(path, exc))
            return None
        if given:
            self.problems.append(f"{where}: there is no file {path}; name one that exists.")
        return None

    def database_url(self, given: str | None) -> str | None:
        """Return the URL with an absolute path; its directory exists, and var/ is made for it."""
        if given is None and self.given("database_url"):
            return None
        url = given or _SQLITE
        if not url.startswith("sqlite:///"):
            return url
        path = (self.root / url.removeprefix("sqlite:///")).resolve()
        if path.parent == self.root / "var":
            self._make_var()
            return f"sqlite:///{path}"
        where = self._where("database_url")
        try:
            if not path.parent.is_dir():
                missing = f"there is no directory {path.parent}; make it first."
                self.problems.append(f"{where}: {missing}")
        except OSError as exc:
            self.problems.append(f"{where}: {_out_of_reach(path.parent, exc)}")
        return f"sqlite:///{path}"

    def secret(self, name: str, env: str | None) -> Any:
        """Return the secret that is not given: kept in var/, or a fault in production."""
        kept = self.root / "var" / name
        # A faulty `env` is neither: making secrets, or asking for them, would only mislead.
        if env is None and self.given("env"):
            return None
        if env == "production":
            # os.path's tells of no error where this user may not look.
            reuse = f" What development used is in {kept}." if os.path.exists(kept) else ""
            self.problems.append(
                f"{_variable(name)}: required in production and not given; "
                f"give {_RIGHT_SECRET[name]}.{reuse}"
            )
            return None
        make, reader = _MADE_SECRET[name]
        try:
            if not kept.exists():
                if not self._make_var():
                    return None
                _create_once(kept, make())
            return reader(kept.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            self.problems.append(
                f"{name} ({kept}): {exc}; mend the file, or give {_variable(name)}."
            )
            return None

    def _make_var(self) -> bool:
        """Return whether var/ is there now; if not, that is noted."""
        path = self.root / "var"
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            problem = f"{path}: cannot be made: {exc.strerror}; start where crmhub may write."
            if problem not in self.problems:
                self.problems.append(problem)
            return False
        return True


_RIGHT_SECRET = {
    "secret_key": f"at least {_SECRET_KEY_LENGTH} random characters",
    "encryption_keys": "an id and 32 random bytes in base64, as in k1:$(openssl rand -base64 32)",
}
_MADE_SECRET: dict[str, tuple[Callable[[], str], Callable[[Any], Any]]] = {
    "secret_key": (new_secret, _secret_key),
    "encryption_keys": (lambda: new_encryption_key("k1"), _encryption_keys),
}


def _create_once(path: Path, content: str) -> None:
    """Write a file that only its owner can read, unless another process was first.

    It appears complete or not at all, so two processes starting at once read the same secret.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(content + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(temporary)


def _out_of_reach(path: Path, exc: OSError) -> str:
    remedy = "let this user reach it, or start elsewhere"
    return f"{path} cannot be looked for: {exc.strerror}; {remedy}."


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _nearest(name: str, known: list[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)
