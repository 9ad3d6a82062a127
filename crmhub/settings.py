"""All settings of an installation, read once at the start.

Environment variables (`CRMHUB_PORT`) override the file (`port` in config/crmhub.toml), which
overrides the defaults. An empty value counts as missing. Values that may contain a password are
shown neither in messages nor in `repr`.
"""

from __future__ import annotations

import difflib
import os
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import time
from itertools import combinations
from pathlib import Path
from typing import Any, Literal
from zoneinfo import ZoneInfo

from crmhub import setting_values as values
from crmhub.secrets import EncryptionKey, WebhookSecret, new_encryption_key, new_secret
from crmhub.setting_values import Network, Parser

PREFIX = "CRMHUB_"
# Variables of the test suite, which are not settings of the service.
_TEST_PREFIX = "CRMHUB_TEST_"
_CONFIG = Path("config/crmhub.toml")
_PLANS = Path("config/plans.toml")
_SQLITE = "sqlite:///var/crmhub.db"
# Created in development, required in production.
_NEW_SECRET: Mapping[str, Callable[[], str]] = {
    "secret_key": new_secret,
    "encryption_keys": lambda: new_encryption_key("k1"),
}
_SECRET_FORM = {
    "secret_key": f"at least {values.SECRET_KEY_LENGTH} random characters",
    "encryption_keys": "an id and 32 random bytes in base64, as in k1:$(openssl rand -base64 32)",
}


class SettingsError(Exception):
    """`problems` has one sentence per error."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def read_toml(path: Path) -> dict[str, Any]:
    """Raises SettingsError."""
    try:
        # utf-8-sig accepts the byte order mark of Windows editors.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as exc:
        raise SettingsError([f"{path}: cannot be read as TOML in UTF-8: {exc}."]) from exc


def _setting(parser: Parser, default: Any = MISSING, *, secret: bool = False) -> Any:
    return field(default=default, repr=not secret, metadata={"parser": parser})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A field with a parser is read from the file, or from `CRMHUB_` and its upper-case name."""

    root: Path
    """The directory in which the service was started: the base of `var/` and of relative paths."""
    config: Path | None = None
    """The settings file that was read, or None; only `CRMHUB_CONFIG` can name another file."""

    made: frozenset[str] = frozenset()
    """The names of the secrets that development has made and stored in `var/`."""

    env: Literal["development", "production"] = _setting(
        values.choice("development", "production"), "development"
    )
    database_url: str = _setting(values.database_url, secret=True)
    """SQLAlchemy's database URL: `postgresql+psycopg://…`, or `sqlite:///` and an absolute path."""
    redis_url: str | None = _setting(values.redis_url, None, secret=True)
    secret_key: str = _setting(values.secret_key, secret=True)
    """The secret behind the keys that sign cursors and sessions; see `secrets.derive`."""
    encryption_keys: tuple[EncryptionKey, ...] = _setting(values.encryption_keys, secret=True)
    """The keys that encrypt stored credentials, the first for new ones; see `secrets.Vault`."""
    egress_allow: tuple[Network, ...] = _setting(values.networks, ())
    """Private networks that outgoing calls may reach."""
    trusted_proxies: tuple[Network, ...] = _setting(values.networks, ())
    """Proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted."""
    public_url: str | None = _setting(values.public_url, None)
    """The address at which people and CRMs reach the service, such as `https://hub.example.com`."""
    plans: Path | None = _setting(values.path, None)
    """The file of plans; None means the built-in plans."""
    alert_url: str | None = _setting(values.web_url, None, secret=True)
    """The URL of the webhook for alerts; None if no alerts are sent."""
    alert_secret: WebhookSecret | None = _setting(values.webhook_secret, None, secret=True)
    """The secret that signs alerts."""
    alert_chat_url: str | None = _setting(values.web_url, None, secret=True)
    """The incoming webhook of a chat that takes Slack's JSON, for alerts; it is a secret itself."""
    alert_email_to: tuple[str, ...] = _setting(values.email_addresses, ())
    """Who gets alerts by email; empty for nobody."""
    alert_email_from: str | None = _setting(values.email_address, None)
    smtp_host: str | None = _setting(values.host, None)
    """The mail server for alerts; it may be in a private network."""
    smtp_port: int | None = _setting(values.whole(1, 65535), None)
    """None for the usual port of `smtp_tls`."""
    smtp_user: str | None = _setting(values.text, None)
    smtp_password: str | None = _setting(values.text, None, secret=True)
    smtp_tls: Literal["starttls", "tls", "none"] = _setting(
        values.choice("starttls", "tls", "none"), "starttls"
    )
    alert_quiet_hours: tuple[time, time] | None = _setting(values.hours, None)
    """From when until when only urgent alerts reach people; None for never."""
    alert_time_zone: ZoneInfo = _setting(values.time_zone, ZoneInfo("UTC"))
    """The time zone of the quiet hours, and of times in messages to people."""
    alert_queue_age: int = _setting(values.duration, 600_000)
    """The age in ms of the oldest queued action at which an alert is sent."""
    oidc_issuer: str | None = _setting(values.issuer, None)
    """The issuer of OpenID Connect by which users sign in to the console; None for no provider."""
    oidc_client_id: str | None = _setting(values.text, None)
    oidc_client_secret: str | None = _setting(values.text, None, secret=True)
    search_timeout_s: float = _setting(values.seconds(0.1, 3600), 5.0)
    """The seconds of database time after which a search or list is stopped."""
    host: str = _setting(values.host, "127.0.0.1")
    port: int = _setting(values.whole(1, 65535), 8080)
    workers: int = _setting(values.whole(1, 256), 2)
    threads: int = _setting(values.whole(1, 4096), 16)
    log_level: Literal["debug", "info", "warning", "error"] = _setting(
        values.choice("debug", "info", "warning", "error"), "info"
    )

    @property
    def var(self) -> Path:
        """For SQLite's database and, in development, the secrets."""
        return self.root / "var"

    @classmethod
    def load(cls, environ: Mapping[str, str] | None = None, root: Path | None = None) -> Settings:
        """In development, missing secrets are created in `var/`. Raises SettingsError."""
        try:
            directory = (root or Path.cwd()).resolve()
        except FileNotFoundError:
            raise SettingsError(
                ["The directory that crmhub is started in is gone; start it in another one."]
            ) from None
        source = _Source(os.environ if environ is None else environ, directory)
        given = {name: source.value(name, parser) for name, parser in _parsers().items()}
        # Without the default file, the built-in plans apply; a named file must exist.
        given["plans"] = source.find_file(given["plans"], _PLANS, source.place_of("plans"))
        given["database_url"] = source.database_url(given["database_url"])
        made = [name for name in _NEW_SECRET if not source.is_given(name)]
        for name in made:
            given[name] = source.stored_secret(name, given["env"])
        source.require_both("alert_url", "alert_secret")
        for pair in combinations(("alert_email_to", "alert_email_from", "smtp_host"), 2):
            source.require_both(*pair)
        source.require_both("smtp_user", "smtp_password")
        source.require_both("oidc_issuer", "oidc_client_id")
        source.require_both("oidc_issuer", "oidc_client_secret")
        if source.problems:
            raise SettingsError(source.problems)
        given = {name: value for name, value in given.items() if value is not None}
        return cls(root=source.root, config=source.config, made=frozenset(made), **given)


def _parsers() -> dict[str, Parser]:
    settings: tuple[Field[Any], ...] = fields(Settings)
    return {one.name: one.metadata["parser"] for one in settings if "parser" in one.metadata}


class _Source:
    def __init__(self, environ: Mapping[str, str], root: Path) -> None:
        self.root = root
        self.problems: list[str] = []
        self._environ = {
            name: value
            for name, value in environ.items()
            if name.startswith(PREFIX) and not name.startswith(_TEST_PREFIX) and value.strip()
        }
        self.config = self.find_file(
            self._environ.pop(f"{PREFIX}CONFIG", None), _CONFIG, f"{PREFIX}CONFIG (environment)"
        )
        self._file: dict[str, Any] = {}
        if self.config is not None:
            try:
                entries = read_toml(self.config).items()
                self._file = {name: value for name, value in entries if value not in ("", [])}
            except SettingsError as exc:
                self.problems += exc.problems
        self._refuse_unknown()

    def _refuse_unknown(self) -> None:
        names = list(_parsers())
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

    def is_given(self, name: str) -> bool:
        return _variable(name) in self._environ or name in self._file

    def require_both(self, name: str, other: str) -> None:
        """Note an error if only one of the two settings `name` and `other` is given."""
        if self.is_given(name) != self.is_given(other):
            given, missing = (name, other) if self.is_given(name) else (other, name)
            self._add_fault(given, f"needs {_variable(missing)} beside it.")

    def place_of(self, name: str) -> str:
        if _variable(name) in self._environ:
            return f"{_variable(name)} (environment)"
        return f"{name} ({self.config})"

    def _add_fault(self, name: str, fault: str) -> None:
        self.problems.append(f"{self.place_of(name)}: {fault}")

    def value(self, name: str, parser: Parser) -> Any:
        if not self.is_given(name):
            return None
        try:
            return parser(self._environ.get(_variable(name)) or self._file[name])
        except ValueError as exc:
            self._add_fault(name, f"{exc}.")
            return None

    def find_file(self, given: str | Path | None, usual: Path, place: str) -> Path | None:
        # Path.expanduser would raise for an unknown home directory.
        path = self.root / os.path.expanduser(given or usual)
        try:
            if path.is_file():
                return path
        except OSError as exc:
            # Also for the default file: an unreadable file may say that this is production.
            self.problems.append((f"{place}: " if given else "") + _inaccessible(path, exc))
            return None
        if given:
            self.problems.append(f"{place}: there is no file {path}; name one that exists.")
        return None

    def database_url(self, given: str | None) -> str | None:
        """For SQLite, with an absolute path in a created directory. None for an invalid setting."""
        if given is None and self.is_given("database_url"):
            return None
        url = given or _SQLITE
        if not url.startswith("sqlite:///"):
            return url
        path = (self.root / url.removeprefix("sqlite:///")).resolve()
        if path.parent == self.root / "var":
            self._make_var()
            return f"sqlite:///{path}"
        try:
            if not path.parent.is_dir():
                missing = f"there is no directory {path.parent}; make it first."
                self._add_fault("database_url", missing)
        except OSError as exc:
            self._add_fault("database_url", _inaccessible(path.parent, exc))
        return f"sqlite:///{path}"

    def stored_secret(self, name: str, env: str | None) -> Any:
        """Create the secret in var/ if it is missing; in production, it must be given."""
        stored = self.root / "var" / name
        # With an invalid `env`, a new secret or a fault about it would mislead.
        if env is None and self.is_given("env"):
            return None
        if env == "production":
            # Unlike Path.exists, this does not raise if the directory is inaccessible.
            reuse = f" What development used is in {stored}." if os.path.exists(stored) else ""
            self.problems.append(
                f"{_variable(name)}: required in production and not given; "
                f"give {_SECRET_FORM[name]}.{reuse}"
            )
            return None
        try:
            if not stored.exists():
                if not self._make_var():
                    return None
                _create_once(stored, _NEW_SECRET[name]())
            return _parsers()[name](stored.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            self.problems.append(
                f"{name} ({stored}): {exc}; mend the file, or give {_variable(name)}."
            )
            return None

    def _make_var(self) -> bool:
        """Return whether the directory var/ exists."""
        path = self.root / "var"
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as exc:
            problem = f"{path}: cannot be made: {exc.strerror}; start where crmhub may write."
            if problem not in self.problems:
                self.problems.append(problem)
            return False
        return True


def _create_once(path: Path, content: str) -> None:
    """Only its owner can read it; do nothing if the file exists.

    The file appears only when it is complete: processes that start together read the same secret.
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


def _inaccessible(path: Path, exc: OSError) -> str:
    remedy = "let this user reach it, or start elsewhere"
    return f"{path} cannot be looked for: {exc.strerror}; {remedy}."


def _variable(name: str) -> str:
    return PREFIX + name.upper()


def _nearest(name: str, known: list[str]) -> str | None:
    return next(iter(difflib.get_close_matches(name, known, n=1)), None)
