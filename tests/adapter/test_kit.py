"""The conformance tests let an honest adapter pass, and catch those that lie."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import requests

from crmhub.adapter import (
    Adapter,
    Context,
    Described,
    Kind,
    Linked,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Unavailable,
    Unsupported,
)
from crmhub.adapter.testing import Connection, FaultProxy, HttpAdapterTests, every_fault, hostile
from crmhub.adapter.testing.base import Base, hidden_in, texts_of
from crmhub.adapter.testing.faults import answers, harms
from tests.adapter import liars
from tests.adapter.liars import CAUGHT_BY, FAULTS, NAMED, TakesNothingForDone, faulty
from tests.adapter.small_adapter import SmallAdapter
from tests.adapter.small_crm import HOOK_KEY, SmallCrm

pytest_plugins = ["pytester"]

# What other tests left to be collected belongs to no inner run.
QUIET = ("-q", "-p", "no:unraisableexception")
# Inner runs that share all liars: starting a run takes longer than most of its tests.
RUNS = 8


@pytest.fixture(autouse=True)
def _inner_runs_load_no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading plugins takes most of an inner run, and Playwright's fails every inner test."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for family, faults in harms().items():
        few = [one for one in faults if one.name in NAMED]
        monkeypatch.setitem(every_fault._FAMILIES, family, few)


class Small(HttpAdapterTests):
    """How the tests of the small CRM's adapters, honest or not, look to their author."""

    adapter_class = SmallAdapter
    credentials = {  # noqa: RUF012
        "refresh_token": "refresh-0-of-the-small-crm",
        "hook_key": HOOK_KEY,
    }
    wrong_secrets = {"hook_key": ""}  # noqa: RUF012
    choice = ("status", "lead")
    read_only = "created"
    typed = {"datetime": "met"}  # noqa: RUF012
    paging = r"limit=([0-9]+)"
    breakdowns = ((200, {"deadlock": True}),)
    rules: Mapping[str, Any] = {}
    """How this CRM differs from others: attributes of `SmallCrm`."""

    @pytest.fixture
    def crm(self) -> Iterator[SmallCrm]:
        with SmallCrm() as crm:
            vars(crm).update(self.rules)
            yield crm


class TestSmallAdapter(Small):
    """The honest one."""


class _LacksTickets(SmallAdapter):
    """A CRM without tickets."""

    lacking = "tickets"

    def create_for_contact(self, kind: Linked, contact_id: str, *args: Any, **more: Any) -> Saved:
        self._has(kind)
        return super().create_for_contact(kind, contact_id, *args, **more)

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        self._has(kind)
        return super().pipelines(kind)

    def describe(self, kind: Kind) -> list[Described]:
        self._has(kind)
        return super().describe(kind)

    def _has(self, kind: str) -> None:
        if kind == self.lacking:
            raise Unsupported(f"Small CRM has no {kind}.")


class _LacksDeals(_LacksTickets):
    """A CRM without deals."""

    lacking = "deals"


def test_a_crm_may_lack_deals_or_tickets(pytester: pytest.Pytester) -> None:
    tests = [
        faulty("500 after"),
        "test_a_call_ends_in_time",
        "test_a_write_whose_answer_does_not_come_in_time_is_uncertain",
        "test_an_id_that_was_never_issued_leads_to_no_other_path",
        "test_credentials_that_are_refused_are_denied",
        "test_every_request_takes_its_turn_in_a_budget",
        "test_every_stage_that_is_listed_is_taken",
        "test_pipelines_are_listed_with_their_stages",
        "test_what_lost_its_answer_is_made_once_when_it_is_tried_again",
    ]
    for lacks in ("_LacksTickets", "_LacksDeals"):
        says = f"    adapter_class = test_kit.{lacks}"
        assert _failed(pytester, SmallAdapter, *tests, says=says) == set(), lacks


class AtItsAddress(SmallAdapter):
    """Its address is a secret, as that of a webhook is."""

    settings = tuple(
        replace(one, default="", secret=True, required=True) if one.name == "base_url" else one
        for one in SmallAdapter.settings
    )

    def __init__(self, context: Context) -> None:
        given = {**context.settings, "base_url": context.credentials["base_url"]}
        super().__init__(replace(context, settings=given))


def test_an_address_may_be_a_secret(pytester: pytest.Pytester) -> None:
    secrets = (
        '    credentials = {**test_kit.Small.credentials, "base_url": "{url}"}\n'
        "    settings = {}\n"
        "    adapter_class = test_kit.AtItsAddress"
    )
    found = "test_what_is_created_is_there_at_once"
    assert _failed(pytester, SmallAdapter, found, says=secrets) == set()


def test_the_parts_of_a_secret_address_are_secrets() -> None:
    address = "https://small.example.test/rest/1/hidden-in-the-path?key=hidden-in-the-query"
    connection = Connection(AtItsAddress, {}, {**Small.credentials, "base_url": address})
    assert {"hidden-in-the-path", "hidden-in-the-query"} <= connection.secrets()


def _failed(
    pytester: pytest.Pytester, liar: type[Adapter], *tests: str, says: str = ""
) -> set[str]:
    """Run some tests of the kit on an adapter and return those that fail.

    `says` is what the test class says besides.
    """
    return _all_failed(pytester, {liar: tests}, says)[liar.__name__]


def _all_failed(
    pytester: pytest.Pytester, chosen: Mapping[type[Adapter], Sequence[str]], says: str = ""
) -> dict[str, set[str]]:
    """Run the chosen tests of each adapter; return the failed tests by the adapter's name."""
    lines = ["from tests.adapter import liars, test_kit"]
    for liar in chosen:
        lines += [f"class Test{liar.__name__}(test_kit.Small):"]
        lines += [f"    adapter_class = liars.{liar.__name__}", *says.splitlines()]
    path = pytester.makepyfile("\n".join(lines))
    names = [f"{path}::Test{liar.__name__}::{test}" for liar in chosen for test in chosen[liar]]
    passed, _, failed = pytester.inline_run(*QUIET, *names).listoutcomes()
    assert len(passed) + len(failed) >= len(names), "a test is left out, or there is none"
    found: dict[str, set[str]] = {liar.__name__: set() for liar in chosen}
    for report in failed:
        _, liar, test = report.nodeid.split("::", 2)
        found[liar.removeprefix("Test")].add(test)
    return found


@pytest.mark.parametrize("first", range(RUNS))
def test_a_liar_is_caught(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    # Who never ends is caught as well after two seconds.
    monkeypatch.setattr(hostile, "_LATE_S", 2.0)
    chosen = dict([*CAUGHT_BY.items()][first::RUNS])
    caught = _all_failed(pytester, chosen)
    assert caught == {liar.__name__: set(tests) for liar, tests in chosen.items()}


def test_a_liar_of_each_kind_is_caught(pytester: pytest.Pytester) -> None:
    kinds = (
        liars.SearchesForAPart,
        liars.GivesNumbersForIds,
        liars.SendsAWriteAgain,
        liars.DropsBlanks,
        liars.SkipsTheBudget,
    )
    chosen = {liar: CAUGHT_BY[liar][:1] for liar in kinds}
    caught = _all_failed(pytester, {**chosen, SmallAdapter: next(iter(chosen.values()))})
    assert caught == {
        **{liar.__name__: set(tests) for liar, tests in chosen.items()},
        "SmallAdapter": set(),
    }


WRONG_SECRET = "test_a_wrong_secret_is_told_from_a_missing_right"


def test_a_wrong_secret_is_recognized_at_any_status(
    pytester: pytest.Pytester,
) -> None:
    lines = ["from tests.adapter import liars, test_kit", "from tests.adapter.small_crm import KEY"]
    by_token = f"credentials = {dict(Small.credentials)!r}"
    for adapter, given in {
        "SmallAdapter": by_token,
        "WithAKey": "credentials = {'key': KEY}",
        "ReadsTheStatusOfAWrongKey": "credentials = {'key': KEY}",
    }.items():
        for status in (200, 400, 401, 403):
            lines += [f"class Test{adapter}{status}(test_kit.Small):"]
            lines += [
                f"    adapter_class = liars.{adapter}",
                f"    rules = {{'refusal': {status}}}",
            ]
            lines += [f"    {given}"]
    path = pytester.makepyfile("\n".join(lines))
    ran = pytester.inline_run(*QUIET, path, "-k", WRONG_SECRET)
    passed, skipped, failed = ran.listoutcomes()
    assert (len(passed), skipped) == (9, [])
    assert {report.nodeid.split("::")[1].removeprefix("Test") for report in failed} == {
        f"ReadsTheStatusOfAWrongKey{status}" for status in (200, 400, 403)
    }


def test_a_failure_shows_what_was_sent_what_came_and_what_was_harmed(
    pytester: pytest.Pytester,
) -> None:
    path = pytester.makepyfile(
        """
        from tests.adapter import liars, test_kit

        class TestLiar(test_kit.Small):
            adapter_class = liars.SendsAWriteAgain
        """
    )
    harmed, other = faulty("reset after"), "test_a_change_to_nothing_clears_the_property"
    shown = pytester.runpytest(*QUIET, f"{path}::TestLiar::{harmed}").stdout
    shown.fnmatch_lines(["E*create_contact, from request 1 on: *"])
    shown.fnmatch_lines(
        [
            "E*request 1 (harmed: reset after; the CRM stored it): POST /v1/contacts"
            ' {"properties": * -> (connection reset)'
        ]
    )
    path.write_text(path.read_text().replace("SendsAWriteAgain", "DropsBlanks"))
    shown = pytester.runpytest(*QUIET, f"{path}::TestLiar::{other}").stdout
    shown.fnmatch_lines(
        ["*requests to the CRM*", 'request 2: PATCH /v1/contacts/1 {"properties":* -> 200 *']
    )
    assert Small.credentials["refresh_token"] not in shown.str()


def test_an_honest_adapter_is_not_caught(pytester: pytest.Pytester) -> None:
    assert _failed(pytester, SmallAdapter, faulty("400"), "test_no_secret_shows") == set()


def test_a_change_may_be_answered_with_nothing(pytester: pytest.Pytester) -> None:
    assert _failed(pytester, TakesNothingForDone, faulty("204")) == set()


def test_what_every_contact_needs_is_no_part_left_out(pytester: pytest.Pytester) -> None:
    needed = '    needed = {"contacts": {"status": "lead"}}'
    created = "test_a_lead_that_lost_its_answer_makes_one_contact_when_it_is_tried_again"
    assert _failed(pytester, SmallAdapter, faulty("400"), created, says=needed) == set()


def test_a_crm_may_have_stages_without_pipelines_or_neither(pytester: pytest.Pytester) -> None:
    path = pytester.makepyfile(
        """
        from tests.adapter import liars, test_kit

        class TestNeither(test_kit.Small):
            adapter_class = liars.HasNoPipelines
            rules = {"pipelines": {}}

        class TestStages(test_kit.Small):
            rules = {"pipelines": {"": ("open", "won")}}
        """
    )
    tests = "pipeline or stage or record or linked or definitions or announced or rejected_by"
    passed, _, failed = pytester.inline_run(*QUIET, path, "-k", tests).listoutcomes()
    assert [report.nodeid for report in failed] == []
    assert len(passed) > 30
    assert sum("test_every_stage_that_is_listed" in report.nodeid for report in passed) == 1


def test_a_crm_may_take_a_title_only_once(pytester: pytest.Pytester) -> None:
    lines = ["from tests.adapter import liars, test_kit"]
    liars_of_titles = ("NumbersTakenTitles", "SmallAdapter", "TakesTheDealOfTheTitle")
    for adapter in ("KnowsUniqueTitles", *liars_of_titles):
        lines += [f"class Test{adapter}(test_kit.Small):", "    rules = {'unique_titles': True}"]
        lines += [f"    adapter_class = liars.{adapter}"]
    path = pytester.makepyfile("\n".join(lines))
    taken = "test_a_title_that_is_taken_makes_another_record_or_a_conflict"
    tests = (
        "linked or made or record or stage or mark or find_marked or create_for or credentials"
        f" or ({FAULTS} and lost)"
    )
    ran = pytester.inline_run(*QUIET, path, "-k", f"KnowsUniqueTitles and ({tests}) or {taken}")
    passed, _, failed = ran.listoutcomes()
    assert len(passed) > 15
    assert sorted(report.nodeid.split("::", 1)[1] for report in failed) == [
        f"Test{liar}::{taken}" for liar in liars_of_titles
    ]


class WritesNumbersAnew(SmallCrm):
    """Stores 5 as 5.00, and knows the amount of deals."""

    def _check(self, kind: str, properties: Mapping[str, Any], own: int = 0) -> None:
        properties = {name: value for name, value in properties.items() if name != "amount"}
        super()._check(kind, properties, own)

    def _insert(self, kind: str, properties: dict[str, Any], *more: Any, **options: Any) -> int:
        numbers = ("city", "amount")
        kept = {n: f"{v}.00" if n in numbers and v else v for n, v in properties.items()}
        return super()._insert(kind, kept, *more, **options)


def test_required_numbers_are_compared_as_numbers(pytester: pytest.Pytester) -> None:
    path = pytester.makepyfile(
        """
        import pytest
        from tests.adapter import test_kit

        class TestNeeding(test_kit.Small):
            needed = {"contacts": {"city": "5"}, "deals": {"amount": "1250"}}

            @pytest.fixture
            def crm(self):
                with test_kit.WritesNumbersAnew() as crm:
                    yield crm
        """
    )
    lost = "test_what_lost_its_answer_is_made_once"
    ran = pytester.inline_run(
        *QUIET,
        path,
        "-k",
        f"{FAULTS} and lost or {lost} or created or changes_nothing or batch or lead or record",
    )
    passed, _, failed = ran.listoutcomes()
    assert [report.nodeid for report in failed] == []
    assert len(passed) > 30


def test_a_standard_test_is_not_overridden_without_a_reason() -> None:
    with pytest.raises(TypeError, match=r"test_no_secret_shows.*xfail"):

        class Sly(Small):
            def test_no_secret_shows(self) -> None:  # type: ignore[override]
                pass


def test_a_standard_test_is_not_overridden_by_way_of_a_mixin() -> None:
    class Mixin:
        test_ids_and_values_are_text = None

    with pytest.raises(TypeError, match="test_ids_and_values_are_text"):

        class Sly(Mixin, Small):  # type: ignore[misc]
            pass


def test_a_standard_test_that_cannot_hold_is_expected_to_fail_with_a_reason() -> None:
    class Open(Small):
        @pytest.mark.xfail(reason="the small CRM shows it to everybody")
        def test_no_secret_shows(self) -> None:  # type: ignore[override]
            raise AssertionError

    assert Open.test_no_secret_shows is not Small.test_no_secret_shows


@pytest.mark.parametrize("xfail", [{"test_that_nobody_wrote": "why"}, {"test_no_secret_shows": ""}])
def test_an_expected_failure_names_a_test_and_a_reason(xfail: dict[str, str]) -> None:
    with pytest.raises(TypeError, match="xfail"):
        type("Sly", (Small,), {"xfail": xfail})


class TidiesMarkup(SmallAdapter):
    """Takes no markup, which is a thing of its CRM."""

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        plain = {name: value.replace("<b>", "") for name, value in properties.items()}
        return super().create_contact(plain, mark=mark)


def test_one_value_of_a_test_may_be_expected_to_fail(pytester: pytest.Pytester) -> None:
    test = "test_a_value_comes_back_as_it_was_written"
    for expected, failed in (("markup", set()), ("emoji", {test})):
        says = (
            "    adapter_class = test_kit.TidiesMarkup\n"
            f'    xfail = {{"{test}[markup]": "no markup", "{test}[{expected}]": "why"}}'
        )
        assert _failed(pytester, SmallAdapter, test, says=says) == failed, expected


class Patient(Base):
    adapter_class = SmallAdapter
    patience = 120.0


def test_the_tests_wait_for_a_late_search_as_long_as_the_test_class_says() -> None:
    answers_of_the_search = iter([None, None, "found"])
    assert Patient().shown(lambda: next(answers_of_the_search)) == "found"
    later = iter([None, "found"])
    assert Small().shown(lambda: next(later)) is None


def test_a_short_secret_is_watched_as_a_whole_word() -> None:
    short = Connection(SmallAdapter, {}, {"refresh_token": "sesame"})
    assert hidden_in("the password (sesame) is wrong", short)
    assert not hidden_in("sesameseed", short)


def test_a_credential_that_is_not_declared_is_not_stored(connection: Connection) -> None:
    context = connection.context()
    with pytest.raises(AssertionError, match="last_login"):
        context.save_credentials({**context.credentials, "last_login": "today"})


@pytest.fixture
def connection() -> Connection:
    return Connection(SmallAdapter, {}, Small.credentials)


def test_a_lease_is_one_holders_until_it_is_given_back(connection: Connection) -> None:
    hold = connection.leases.hold
    with connection.within(0.05), hold("a", 9), hold("b", 9), pytest.raises(Unavailable):
        hold("a", 9).__enter__()
    with connection.leases.hold("a", 9):
        assert connection.leases.granted == {"a": 2, "b": 1}


def test_a_lease_that_has_run_out_is_taken_over(connection: Connection) -> None:
    with connection.leases.hold("a", 0.02), connection.leases.hold("a", 9):
        assert connection.leases.granted == {"a": 2}


def test_time_that_is_skipped_is_taken_off_what_remains(connection: Connection) -> None:
    with connection.within(1000):
        connection.sleep(400)
        assert 500 < connection.remaining() <= 600


def test_a_secret_is_found_wherever_an_error_hides_it(connection: Connection) -> None:
    secret = Small.credentials["refresh_token"]
    deep = ValueError("fine")
    deep.__context__ = KeyError(secret)
    for error in (Unavailable(secret), Rejected([Problem("email", secret)]), deep):
        assert hidden_in(texts_of(error), connection)
    assert not hidden_in(texts_of(Unavailable("fine")), connection)


def test_the_proxy_harms_what_it_is_told_to_and_nothing_else() -> None:
    with SmallCrm() as crm, FaultProxy(crm.url) as proxy:
        proxy.inject(answers(418), skip=1, when=lambda request: "me" in request.target)
        got = [requests.get(f"{proxy.url}/{path}").status_code for path in ("me", "x", "me", "me")]
        assert got == [401, 401, 418, 401]
        assert [request.fault for request in proxy.requests] == [False, False, True, False]
