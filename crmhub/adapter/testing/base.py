from __future__ import annotations

import functools
import inspect
import itertools
import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, ClassVar, TypeVar

import pytest

from crmhub.adapter import (
    Adapter,
    AdapterError,
    Kind,
    Linked,
    Pipeline,
    PropertyType,
    Rejected,
    Saved,
    Store,
    Unsupported,
    features,
)
from crmhub.adapter.matching import Lead
from crmhub.adapter.testing.connection import Connection
from crmhub.adapter.testing.crm import Crm, LaggingCrm

DOMAIN = "conformance-tests.org"
"""The domain of all emails in these tests; a log that contains it contains an email."""
HOURS = 3600.0
NEW_RECORDS = ("contacts", "contacts without an email", "companies", "deals", "tickets")
"""The new records that the tests write without a contact; see `Base.new_record`."""
_POLL = 0.02
# A secret of this length does not appear in a text by chance.
_SURELY = 8
# No phone or code, whose leading zeros or plus count.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?", re.ASCII)
E = TypeVar("E", bound=AdapterError)
T = TypeVar("T")
_numbers = itertools.count(1)


def for_each(name: str, values: Mapping[str, object]) -> Callable[[Any], Any]:
    """Run a test with each value, in one test case; a failure names the label.

    Between two values, the contacts are deleted. `Base.xfail` may name one label.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(self: Base, **fixtures: Any) -> None:
            skipped: list[BaseException] = []
            crm, proxy = fixtures.get("crm"), fixtures.get("proxy")
            lag = crm.search_lag if isinstance(crm, LaggingCrm) else 0.0
            for i, (label, value) in enumerate(values.items()):
                if i and isinstance(crm, LaggingCrm):
                    crm.search_lag = lag
                if i and crm:
                    self.empty(crm)
                if i and proxy:
                    proxy.clear()
                reason = self.xfail.get(f"{test.__name__}[{label}]")
                try:
                    test(self, **fixtures, **{name: value})
                except pytest.skip.Exception as exc:
                    skipped.append(exc)
                # Each failure that is not expected is raised again, with the label.
                except (Exception, pytest.fail.Exception) as exc:
                    if not reason:
                        exc.add_note(f"The {name} was: {label}.")
                        raise
                else:
                    assert not reason, f"{label} passes, and was expected to fail: {reason}"
            if len(skipped) == len(values):
                raise skipped[0]

        signature = inspect.signature(test)
        left = [one for parameter, one in signature.parameters.items() if parameter != name]
        run.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return run

    return decorate


class Base:
    """The attributes with which the test class of an adapter describes its CRM.

    A subclass sets `adapter_class` and what differs, and defines a fixture `crm` that yields an
    empty CRM for each test. Property names are the CRM's own.
    """

    adapter_class: ClassVar[type[Adapter]]
    settings: Mapping[str, str] = {}
    """The connection's settings; `{url}` is replaced by the base URL that the adapter calls."""
    credentials: Mapping[str, str] = {}
    """The connection's secrets; `{url}` is replaced by the base URL, in case that is a secret."""

    text: str = "lastname"
    """The name of a contact property that accepts any text."""
    text2: str = "firstname"
    """The name of another such property; it may be that of the whole name."""
    unknown: str = "no_such_property_of_anything"
    choice: tuple[str, str] | None = None
    """The name of a contact property with options, and the value of one option."""
    read_only: str | None = None
    """The name of a contact property that only the CRM itself writes."""
    breakdowns: Sequence[tuple[int, object]] = ()
    """Answers (status and JSON) below 500 with which this CRM reports an internal error.

    After such an answer, a write may have taken effect. `{request}` in a text is replaced by a
    quotation of the request: write it where the CRM's error messages have their words.
    """
    own_errors: Sequence[tuple[type[AdapterError], int, object]] = ()
    """Answers with which this CRM reports an error in its own way: error, status and JSON.

    The error is Denied, LacksRight, Throttled, Unavailable or BadConfig; nothing was written. Say
    here what a status alone does not tell: an error with a status of 2xx, a missing right told with
    401. `{request}` stands for a quotation of the request, as in `breakdowns`.
    """
    token_errors: Sequence[tuple[type[AdapterError], int, object]] = ()
    """The same for the endpoint that gives tokens or sessions, such as a throttled login."""
    wrong_secrets: Mapping[str, str] = {}
    """Wrong values of secrets, by name, where another letter in the right one makes none.

    "" for a secret that no request sends, such as that of webhooks.
    """
    at_once: int = 0
    """The most requests that the CRM accepts at the same time; 0 if it does not limit them."""
    typed: Mapping[PropertyType, str] = {}
    """The names of contact properties, by their type, for a test of the values' form.

    Name one of each of `bool`, `currency`, `date`, `datetime` and `number` that the CRM has.
    """
    owner: str = ""
    """The name of the property of deals that holds the id of the user to whom a deal is given.

    Name it if the adapter lists owners: then `linked` of the fake returns this property, too.
    """
    default_owner: str = ""
    """The id of the user to whom the CRM itself gives records without owner, or ""."""
    paging: str = ""
    """A regular expression that finds the page size in the requests for a list, as its group 1.

    It is searched in the path with its query, and in the body. "" for a CRM that lists everything
    in one answer. The tests ask for pages of one record in its place.
    """
    every_request: bool = True
    """Whether each fault meets each request of each operation.

    False: each fault meets one request of each operation. This takes about an eighth of the time,
    for tests that run often. Run all of them before you hand out a version.
    """
    patience: float = 0.0
    """For how many seconds the CRM's search may hide a new contact; the tests wait that long."""
    xfail: Mapping[str, str] = {}
    """The names of tests that cannot pass, each with its parameters and the reason.

    For example `{"test_a_value_comes_back_as_it_was_written[emoji]": "latin letters only"}`.
    """
    needed: Mapping[str, Mapping[str, str]] = {}
    """The properties that the CRM requires in a new record, with values, by kind of record.

    A number may come back in another form, such as 5.00 for 5.
    """
    titles: Mapping[Linked, str] = {"deals": "dealname", "tickets": "subject"}
    """The properties that hold the titles of deals and tickets."""
    details: Mapping[Linked, tuple[str, str]] = {
        "deals": ("amount", "1250"),
        "tickets": ("content", "It is broken"),
    }
    """A further property that bots send, as name and value, for deals and for tickets.

    The CRM must have it, else the tests fail: name one that it has.
    """
    pipeline_names: Mapping[Linked, str] = {"deals": "pipeline", "tickets": "hs_pipeline"}
    stage_names: Mapping[Linked, str] = {"deals": "dealstage", "tickets": "hs_pipeline_stage"}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        unknown = [name for name in cls.xfail if not hasattr(cls, name.partition("[")[0])]
        if unknown or not all(cls.xfail.values()):
            raise TypeError(f"{cls.__name__}.xfail: no such test, or no reason: {unknown}")
        overridden = [name for name in dir(cls) if _silenced(cls, name)]
        if overridden:
            raise TypeError(
                f"{cls.__name__} overrides {', '.join(overridden)} of the conformance tests; mark"
                " each @pytest.mark.xfail(reason=...) to say why this adapter does otherwise"
            )

    @pytest.fixture(autouse=True)
    def _expected_failure(self, request: pytest.FixtureRequest) -> None:
        reason = self.xfail.get(request.node.name)
        if reason:
            request.node.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.fixture
    def crm(self) -> Crm:
        """The fake CRM under test, empty at first; every test class must define this fixture."""
        raise NotImplementedError("give your test class a fixture `crm`")

    @pytest.fixture
    def store(self) -> Store | None:
        """The hub's own records, for adapters that store contacts in the hub; None for others."""
        return None

    @pytest.fixture
    def url(self) -> str:
        """The base URL that the adapter calls; "" for an adapter without HTTP."""
        return ""

    @pytest.fixture
    def urls(self, url: str) -> Mapping[str, str]:
        """The base URLs of the CRM's hosts by name; the main one is called "url"."""
        return {"url": url}

    @pytest.fixture
    def connection(
        self, urls: Mapping[str, str], store: Store | None, caplog: pytest.LogCaptureFixture
    ) -> Iterator[Connection]:
        """Fail after the test if a log contains a secret or an email."""
        connection = self._connection(urls, store)
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
        return connection.adapter()

    def _connection(self, urls: Mapping[str, str], store: Store | None = None) -> Connection:
        settings = {name: value.format_map(urls) for name, value in self.settings.items()}
        secrets = dict(self.credentials)
        for host, url in urls.items():
            # Plain replacement, since a secret may contain braces.
            secrets = {name: text.replace(f"{{{host}}}", url) for name, text in secrets.items()}
        return Connection(self.adapter_class, settings, secrets, store=store)

    def empty(self, crm: Crm) -> None:
        """Delete the contacts between two values; override it if a CRM keeps those with deals."""
        for contact_id in list(crm.contacts()):
            crm.delete_contact(contact_id)

    def shown(self, find: Callable[[], T | None]) -> T | None:
        ends = time.monotonic() + self.patience
        while (found := find()) is None and time.monotonic() < ends:
            time.sleep(_POLL)
        return found

    def settle(self, adapter: Adapter, *phones: str) -> None:
        for phone in phones if self.patience else ():
            assert self.shown(lambda: adapter.find_contact(phone=phone)), "the search is too late"  # noqa: B023

    def made(self, kind: str, properties: Mapping[str, str]) -> dict[str, str]:
        """Return `properties` with those that the CRM requires of a new record, as "contacts"."""
        needed = {name: numeric(value) for name, value in self.needed.get(kind, {}).items()}
        return {**needed, **properties}

    def person(self, **properties: str) -> dict[str, str]:
        """Return a contact's `properties` with a unique email and text, and the required ones."""
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
        """Return a lead with the required properties too; a new mark is made if `mark` is ""."""
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
        """Return title and required properties; another title each time if it must be unique."""
        if kind in self.adapter_class.unique_titles:
            title = f"{title} {next(_numbers)}"
        return self.made(kind, {self.titles[kind]: title})

    def new_record(self, of: str) -> tuple[Kind, dict[str, str]]:
        """Return the kind and unique properties of a new record; `of` is one of `NEW_RECORDS`."""
        text = f"Of {new_mark()}"
        match of:
            case "companies":
                return "companies", self.made("companies", {"name": text})
            case "deals" | "tickets":
                return of, self.title(of, text)
        person = self.person(**{self.text: text})
        if of != "contacts":
            del person["email"]
        return "contacts", person

    def announced(self, feature: str) -> None:
        if feature not in features(self.adapter_class):
            pytest.skip(f"{self.adapter_class.title} announces no {feature}")

    def pipelines(self, adapter: Adapter, kind: Linked) -> list[Pipeline]:
        self.announced("pipelines")
        with self.having(f"pipelines of {kind}"):
            return adapter.pipelines(kind)

    @contextmanager
    def having(self, what: str) -> Iterator[None]:
        """Skip the test if the adapter raises Unsupported."""
        try:
            yield
        except Unsupported:
            pytest.skip(f"{self.adapter_class.title} has no {what}")

    def calls_by_id(self, adapter: Adapter) -> list[Callable[[str], object]]:
        """Return calls with the id of a contact; the last two need deals and tickets."""
        return [
            lambda id: adapter.get_contact(id, ["email"]),
            lambda id: adapter.update_contact(id, {self.text: "Changed"}),
            lambda id: adapter.create_for_contact("deals", id, self.title("deals")),
            lambda id: adapter.create_for_contact("tickets", id, self.title("tickets")),
        ]

    def lagging(self, crm: Crm) -> LaggingCrm:
        """Let the CRM's search lag by an hour; skip the test if the fake cannot do this."""
        if not isinstance(crm, LaggingCrm):
            pytest.skip("the fake CRM has no search_lag: its search is never late")
        crm.search_lag = HOURS
        return crm


class _Number(str):
    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, str) and _NUMBER.fullmatch(other) is not None
        return same and Decimal(self) == Decimal(str(other))

    def __ne__(self, other: object) -> bool:
        return not self == other


def numeric(text: str) -> str:
    """Return a number's text as one that equals its other texts, such as 1250 and 1250.00."""
    return _Number(text) if _NUMBER.fullmatch(text) else text


def either(error: type[E], call: Callable[[], T]) -> T | E:
    try:
        return call()
    except error as exc:
        return exc


def leaving_out(
    write: Callable[[Mapping[str, str]], Saved], properties: Mapping[str, str]
) -> tuple[Saved, dict[str, str]]:
    """Write without the properties rejected by name; fail if one was not sent, or none is named."""
    rest = dict(properties)
    while isinstance(saved := either(Rejected, lambda: write(rest)), Rejected):  # noqa: B023
        named = {problem.name for problem in saved.problems}
        assert named, f"it names no property: {saved}"
        assert named <= rest.keys(), f"it names what was not sent: {named - rest.keys()}"
        rest = {name: value for name, value in rest.items() if name not in named}
    return saved, rest


def new_mark() -> str:
    """Return a new unique mark, in the hub's format."""
    return f"crmhub-{next(_numbers):020d}"


def phone_number() -> str:
    return f"+49151234{next(_numbers):05d}"


def texts_of(error: BaseException | None) -> str:
    """Return message, representation and attributes of an error, and of its causes."""
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
    """A short secret counts only as a whole word, since it may be a part of an ordinary one."""
    return any(
        secret in text
        and (
            len(secret) >= _SURELY
            or re.search(rf"(?<![^\W_]){re.escape(secret)}(?![^\W_])", text) is not None
        )
        for secret in connection.secrets()
    )


def assert_readable(error: AdapterError, connection: Connection) -> None:
    """Assert that an error has a message, and that none of its texts contains a secret."""
    assert error.message.strip(), f"{type(error).__name__} says nothing"
    assert not hidden_in(texts_of(error), connection), "an error holds a secret"


def _silenced(cls: type, name: str) -> bool:
    """Return whether a test class overrides the standard test `name` without an xfail reason."""
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
