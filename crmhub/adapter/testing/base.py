"""Base class of all conformance tests: a description of the CRM, and shared fixtures."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import pytest

from crmhub.adapter import (
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
"""The domain of every email in these tests, by which emails in logs are detected."""
HOURS = 3600.0
E = TypeVar("E", bound=AdapterError)
T = TypeVar("T")
_numbers = itertools.count(1)


class Base:
    """The attributes with which an adapter's test class describes its CRM.

    A subclass sets `adapter_class` and the attributes that differ from the defaults, and has a
    fixture `crm` that yields an empty CRM for each test. Properties have the CRM's own names.
    """

    adapter_class: ClassVar[type[Adapter]]
    settings: Mapping[str, str] = {}
    """The settings of the connection; `{url}` is replaced by the address to call."""
    credentials: Mapping[str, str] = {}
    """The secrets of the connection; `{url}` is replaced by the address, if that is a secret."""

    text: str = "lastname"
    """A property of contacts that accepts any text."""
    text2: str = "firstname"
    """Another property of contacts that accepts any text."""
    unknown: str = "no_such_property_of_anything"
    choice: tuple[str, str] | None = None
    """A property of contacts that has options, and one of its values."""
    read_only: str | None = None
    """A property of contacts that only the CRM writes."""
    breakdowns: Sequence[tuple[int, object]] = ()
    """Status and JSON with which this CRM reports internal errors, if the status is below 500.

    A write that is answered in this way may have been written. Include a secret in one of them if
    the CRM's error messages quote the request.
    """
    needed: Mapping[str, Mapping[str, str]] = {}
    """Properties that the CRM requires, by kind; they are added to every new record."""
    titles: Mapping[Linked, str] = {"deals": "dealname", "tickets": "subject"}
    details: Mapping[Linked, tuple[str, str]] = {
        "deals": ("amount", "1250"),
        "tickets": ("content", "It is broken"),
    }
    """Another property of deals and tickets that bots send, with a value."""
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
        """The CRM under test; every test class must define this fixture."""
        raise NotImplementedError("give your test class a fixture `crm`")

    @pytest.fixture
    def store(self) -> Store | None:
        """The hub's own record store, for adapters that keep contacts in the hub."""
        return None

    @pytest.fixture
    def url(self) -> str:
        """The base URL that the adapter calls."""
        return ""

    @pytest.fixture
    def connection(
        self, url: str, store: Store | None, caplog: pytest.LogCaptureFixture
    ) -> Iterator[Connection]:
        """The connection under test; afterwards the logs are searched for secrets and emails."""
        settings = {name: value.format(url=url) for name, value in self.settings.items()}
        # Plain replacement, since a secret may contain braces.
        secrets = {name: text.replace("{url}", url) for name, text in self.credentials.items()}
        connection = Connection(self.adapter_class, settings, secrets, store=store)
        caplog.set_level(logging.DEBUG)
        yield connection
        connection.outgoing.close()
        records = [*caplog.get_records("setup"), *caplog.get_records("call")]
        for record in records:
            # urllib3's debug lines contain paths, and production does not log them.
            if not record.name.startswith("urllib3"):
                text = f"{record.getMessage()} {record.exc_info or ''}"
                assert not hidden_in(text, connection), "a secret was logged"
                assert DOMAIN not in text, f"an email was logged by {record.name}"

    @pytest.fixture
    def adapter(self, connection: Connection) -> Adapter:
        """An adapter of the connection under test."""
        return connection.adapter()

    # What the tests are written with.

    def made(self, kind: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return the properties of a new record, with the ones that the CRM requires."""
        return {**self.needed.get(kind, {}), **properties}

    def person(self, **properties: str) -> dict[str, str]:
        """Return the properties of a new contact with a unique email and text."""
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
        """Return a lead with these properties, identified by their email and phone."""
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
        """Skip the test unless the adapter supports this optional method."""
        if feature not in features(self.adapter_class):
            pytest.skip(f"{self.adapter_class.title} announces no {feature}")

    def pipelines(self, adapter: Adapter, kind: Linked) -> list[Pipeline]:
        """Return the pipelines of a kind; skip the test if the adapter or the CRM has none."""
        self.announced("pipelines")
        try:
            return adapter.pipelines(kind)
        except Unsupported:
            pytest.skip(f"{self.adapter_class.title} has no {kind}")

    def lagging(self, crm: Crm) -> LaggingCrm:
        """Delay the CRM's search index from now on; skip the test if the fake CRM cannot."""
        if not isinstance(crm, LaggingCrm):
            pytest.skip("the fake CRM has no search_lag: its search is never late")
        crm.search_lag = HOURS
        return crm


def either(error: type[E], call: Callable[[], T]) -> T | E:
    """Call a function and return its result, or the error of this class that it raised."""
    try:
        return call()
    except error as exc:
        return exc


def new_mark() -> str:
    """Return a new unique mark, as the hub generates them."""
    return f"crmhub-{next(_numbers):020d}"


def phone_number() -> str:
    """Return a unique phone number in E.164."""
    return f"+49151234{next(_numbers):05d}"


def texts_of(error: BaseException | None) -> str:
    """Return the messages and attributes of an error and all of its causes as one text."""
    texts: list[str] = []
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        cause = waiting.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            fields = {k: v for k, v in vars(cause).items() if isinstance(v, str | tuple | list)}
            texts.append(f"{cause} {cause!r} {fields}")
            waiting += [cause.__cause__, cause.__context__]
    return "\n".join(texts)


def hidden_in(text: str, connection: Connection) -> bool:
    """Return whether a text contains one of the connection's secrets."""
    return any(secret in text for secret in connection.secrets())


def assert_readable(error: AdapterError, connection: Connection) -> None:
    """Assert that an error has a message, and that it contains no secret."""
    assert error.message.strip(), f"{type(error).__name__} says nothing"
    assert not hidden_in(texts_of(error), connection), "an error holds a secret"


def _silenced(cls: type, name: str) -> bool:
    """Return whether a subclass replaces a standard test without giving an xfail reason."""
    if not name.startswith("test_"):
        return False
    standard = [
        base
        for base in cls.__mro__
        if name in vars(base) and base.__module__.startswith(__package__)
    ]
    present = getattr(cls, name)
    if not standard or present is vars(standard[0])[name]:
        return False
    marks = getattr(present, "pytestmark", [])
    return not any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks)
