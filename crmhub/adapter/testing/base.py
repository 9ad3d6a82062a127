"""What an adapter's test class says of its CRM, and what every test is given."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import pytest

from crmhub.adapter.contract import (
    Adapter,
    AdapterError,
    Linked,
    Pipeline,
    Store,
    Unsupported,
    features,
)
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import Crm, LaggingCrm

DOMAIN = "conformance-tests.org"
"""The domain of every email in these tests: none may be seen in a log."""
HOURS = 3600.0
E = TypeVar("E", bound=AdapterError)
T = TypeVar("T")
_numbers = itertools.count(1)


class Base:
    """The names by which an adapter's test class describes its CRM.

    A subclass sets `adapter_class` and what differs from the defaults, and has a fixture `crm`
    that yields a fresh CRM for each test. The names of properties are the CRM's own.
    """

    adapter_class: ClassVar[type[Adapter]]
    settings: Mapping[str, str] = {}
    """What the connection is set to; `{url}` becomes the address to call."""
    credentials: Mapping[str, str] = {}
    """The secrets of the connection; `{url}` becomes the address, for one that is a secret."""

    text: str = "lastname"
    """A property of contacts that takes any text."""
    text2: str = "firstname"
    """Another one."""
    unknown: str = "no_such_property_of_anything"
    choice: tuple[str, str] | None = None
    """A property of contacts with options, and one of its values."""
    read_only: str | None = None
    """A property of contacts that only the CRM writes."""
    breakdowns: Sequence[tuple[int, object]] = ()
    """Status and JSON by which this CRM says that it broke down, where no status from 500 on does.

    What it answers so to a write may have been written. Give one a secret where it repeats what
    was sent.
    """
    needed: Mapping[str, Mapping[str, str]] = {}
    """By kind, what a record needs beside what a test gives it."""
    titles: Mapping[Linked, str] = {"deals": "dealname", "tickets": "subject"}
    details: Mapping[Linked, tuple[str, str]] = {
        "deals": ("amount", "1250"),
        "tickets": ("content", "It is broken"),
    }
    """What else bots send of a deal or ticket, with a value."""
    pipeline_names: Mapping[Linked, str] = {"deals": "pipeline", "tickets": "hs_pipeline"}
    stage_names: Mapping[Linked, str] = {"deals": "dealstage", "tickets": "hs_pipeline_stage"}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        overridden = [name for name in dir(cls) if _silenced(cls, name)]
        if overridden:
            raise TypeError(
                f"{cls.__name__} overrides {', '.join(overridden)} of the conformance tests; mark"
                " each @pytest.mark.xfail(reason=...) to say why this adapter does otherwise"
            )

    @pytest.fixture
    def crm(self) -> Crm:
        """The CRM of one test, seen from behind; the subclass says what it is."""
        raise NotImplementedError("give your test class a fixture `crm`")

    @pytest.fixture
    def store(self) -> Store | None:
        """The hub's own records, for an adapter that keeps contacts there."""
        return None

    @pytest.fixture
    def url(self) -> str:
        """Where the adapter is sent."""
        return ""

    @pytest.fixture
    def connection(
        self, url: str, store: Store | None, caplog: pytest.LogCaptureFixture
    ) -> Iterator[Connection]:
        """The connection under test. No secret and no email may have been logged in the end."""
        settings = {name: value.format(url=url) for name, value in self.settings.items()}
        # Braces may be a part of a secret.
        secrets = {name: text.replace("{url}", url) for name, text in self.credentials.items()}
        connection = Connection(self.adapter_class, settings, secrets, store=store)
        caplog.set_level(logging.DEBUG)
        yield connection
        connection.outgoing.close()
        for record in (one for when in ("setup", "call") for one in caplog.get_records(when)):
            # What urllib3 logs at this level is its own affair.
            if not record.name.startswith("urllib3"):
                text = f"{record.getMessage()} {record.exc_info or ''}"
                assert not hidden_in(text, connection), "a secret was logged"
                assert DOMAIN not in text, f"an email was logged by {record.name}"

    @pytest.fixture
    def adapter(self, connection: Connection) -> Adapter:
        """An adapter of the connection."""
        return connection.adapter()

    # What the tests are written with.

    def made(self, kind: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return properties of a new record, with what the CRM demands."""
        return {**self.needed.get(kind, {}), **properties}

    def person(self, **properties: str) -> dict[str, str]:
        """Return the properties of somebody new, with an email and a text of their own."""
        number = next(_numbers)
        mine = {"email": f"ann{number}@{DOMAIN}", self.text: f"Of test {number}"}
        return self.made("contacts", mine | properties)

    def lead(
        self,
        properties: Mapping[str, str],
        *,
        contact_id: str = "",
        email_id: str = "",
        phone_id: str = "",
        strict: bool = False,
        mark: str = "",
        tried_ms: int = 0,
        written_ms: int = 0,
    ) -> Lead:
        """Return a lead with these properties, its email and phone among them."""
        return Lead(
            self.made("contacts", properties),
            email=properties.get("email", ""),
            phone=properties.get("phone", ""),
            contact_id=contact_id,
            email_id=email_id,
            phone_id=phone_id,
            strict=strict,
            mark=mark or new_mark(),
            tried_ms=tried_ms,
            written_ms=written_ms,
        )

    def title(self, kind: Linked, title: str = "A title") -> dict[str, str]:
        """Return the properties of a new deal or ticket."""
        return self.made(kind, {self.titles[kind]: title})

    def announced(self, feature: str) -> None:
        """Skip the test, and say why, unless the adapter announces the feature."""
        if feature not in features(self.adapter_class):
            pytest.skip(f"{self.adapter_class.title} announces no {feature}")

    def pipelines(self, adapter: Adapter, kind: Linked) -> list[Pipeline]:
        """Return the pipelines of a kind; skips where none are announced or the CRM lacks it."""
        self.announced("pipelines")
        try:
            return adapter.pipelines(kind)
        except Unsupported:
            pytest.skip(f"{self.adapter_class.title} has no {kind}")

    def lagging(self, crm: Crm) -> LaggingCrm:
        """Let the CRM's search lag from now on; skips where the fake cannot."""
        if not isinstance(crm, LaggingCrm):
            pytest.skip("the fake CRM has no search_lag: its search is never late")
        crm.search_lag = HOURS
        return crm


def either(error: type[E], call: Callable[[], T]) -> T | E:
    """Return what a call returns, or the error of this class that it raises."""
    try:
        return call()
    except error as exc:
        return exc


def new_mark() -> str:
    """Return a mark as the hub makes them: no two are the same."""
    return f"crmhub-{next(_numbers):020d}"


def phone_number() -> str:
    """Return a phone number in E.164 that no other test has."""
    return f"+49151234{next(_numbers):05d}"


def texts_of(error: BaseException | None) -> str:
    """Return everything an error says, with all that led to it."""
    told: list[str] = []
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            fields = {k: v for k, v in vars(one).items() if isinstance(v, str | tuple | list)}
            told.append(f"{one} {one!r} {fields}")
            waiting += [one.__cause__, one.__context__]
    return "\n".join(told)


def hidden_in(text: str, connection: Connection) -> bool:
    """Return whether a text holds one of the connection's secrets."""
    return any(secret in text for secret in connection.secrets())


def well_told(error: AdapterError, connection: Connection) -> None:
    """Check that an error has a message for people, which holds no secret."""
    assert error.message.strip(), f"{type(error).__name__} says nothing"
    assert not hidden_in(texts_of(error), connection), "an error holds a secret"


def _silenced(cls: type, name: str) -> bool:
    """Return whether a standard test is replaced by one that gives no reason."""
    if not name.startswith("test_"):
        return False
    standard = [
        one for one in cls.__mro__ if name in vars(one) and one.__module__.startswith(__package__)
    ]
    present = getattr(cls, name)
    if not standard or present is vars(standard[0])[name]:
        return False
    marks = getattr(present, "pytestmark", [])
    return not any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks)
