"""Charts: what the journal's history says, and the bars of the page."""

from __future__ import annotations

import re
from datetime import datetime
from itertools import pairwise
from types import SimpleNamespace
from urllib.parse import unquote
from zoneinfo import ZoneInfo

import pytest

from crmhub.console.activity import _axis_top
from crmhub.console.reader_zone import COOKIE
from crmhub.database.connection import now_ms
from crmhub.operators.actions.history import SPANS, Span, history
from tests.api.helpers.helper_calls import known
from tests.console.past import HOUR, put
from tests.consoles import text_of


def past(hub, client, span="24h"):
    return history(hub.database, SPANS[span], client.account)


def test_each_part_counts_what_was_accepted_and_how_it_ended(client, hub):
    put(hub, client.account, *[(2 * HOUR, 2 * HOUR - 100, "done")] * 3)
    put(hub, client.account, (2 * HOUR, 2 * HOUR - 5, "refused"), (2 * HOUR, 0, "dead"))
    put(hub, client.account, (2 * HOUR, 0, "parked"), (60 * 86_400_000, 59 * 86_400_000, "done"))
    parts = past(hub, client)
    assert len(parts) == 24
    assert [part.accepted for part in parts if part.accepted] == [6]
    assert [(one.done, one.refused) for one in parts if one.done] == [(3, 1)]
    assert (parts[-1].dead, parts[-1].success) == (2, 0.0)
    assert parts[-3].success == 0.75
    assert parts[0].success is None


def test_what_was_discarded_neither_failed_nor_was_it_done(client, hub):
    put(hub, client.account, (HOUR, HOUR // 2, "discarded"), (HOUR, HOUR // 2, "done"))
    parts = past(hub, client)
    assert sum(part.accepted for part in parts) == 2
    assert [(one.dead, one.ended, one.success) for one in parts if one.ended] == [(0, 1, 1.0)]
    assert parts[-1].waiting == 0


def test_what_was_accepted_before_the_time_counts_where_it_ended(client, hub):
    put(hub, client.account, (30 * HOUR, HOUR // 2, "done"), (30 * HOUR, None, "queued"))
    parts = past(hub, client)
    assert sum(part.accepted for part in parts) == 0
    assert sum(part.done for part in parts) == 1
    assert [part.waiting for part in parts] in ([2] * 23 + [1], [2] * 22 + [1, 1])
    assert parts[-1].oldest == pytest.approx(30 * HOUR, abs=60_000)


def test_times_are_told_to_two_digits_for_half_and_for_95_of_100(client, hub):
    took = [10 * n for n in range(1, 101)]
    # Half past, in the hour before this one: all of it ends in one part.
    ago = now_ms() % HOUR + HOUR // 2
    put(hub, client.account, *[(ago, ago - ms, "done") for ms in took])
    (part,) = [one for one in past(hub, client) if one.done]
    assert (part.p50, part.p95) == (500, 950)
    put(hub, client.account, *[(ago, ago - 123_456, "done")] * 1000)
    (part,) = [one for one in past(hub, client) if one.done]
    assert (part.p50, part.p95) == (120_000, 120_000)


def test_the_age_of_the_queue_is_its_highest_in_each_part(client, hub):
    put(hub, client.account, (5 * HOUR, 2 * HOUR, "done"))
    parts = past(hub, client)
    ages = [part.oldest for part in parts if part.oldest]
    # It grew by an hour each hour, until it was done.
    assert len(ages) == 4
    assert [b - a for a, b in pairwise(ages[:3])] == [HOUR, HOUR]
    assert ages[-1] == 3 * HOUR
    assert parts[-1].waiting == 0


def test_a_history_is_of_one_account_or_of_all(client, other, hub):
    put(hub, client.account, (1, 0, "done"))
    assert sum(part.accepted for part in past(hub, other)) == 0
    everything = history(hub.database, SPANS["30d"])
    assert sum(part.accepted for part in everything) >= 1


def test_clocks_that_differ_break_nothing(client, hub):
    put(hub, client.account, (0, 5_000, "done"), (-HOUR, None, "queued"))
    parts = past(hub, client)
    assert sum(part.done for part in parts) == 1
    assert min(part.oldest for part in parts) >= 0


@pytest.mark.parametrize("span", SPANS)
def test_the_page_has_figures_bars_and_a_table(client, hub, operator, span):
    known(client)
    put(hub, client.account, (2 * HOUR, HOUR, "dead"), (3 * HOUR, None, "queued"))
    path = f"/activity/charts?span={span}&account={client.account.client_id}"
    answer = operator.get(path)
    rows = re.findall(r'<th scope="row">.*?</tr>', answer.text, re.S)
    assert 1 <= len(rows) <= 4, "intervals in which nothing happened are left out"
    assert answer.text.count("<title>") == 1 + SPANS[span].parts
    assert answer.text.count('<rect class="is-good"') == 1
    assert answer.text.count('<rect class="is-bad"') == 1
    assert "style=" not in answer.text
    assert "Accepted 3 Done 1 Refused or failed 1 Waiting now 1" in text_of(answer)
    assert "Longest wait 3 h" in text_of(answer)


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "America/Sao_Paulo", "Asia/Kathmandu"])
def test_days_begin_at_midnight_of_the_reader(client, hub, operator, zone):
    put(hub, client.account, (1000, 500, "done"))
    operator.http.set_cookie(COOKIE, zone, path="/console")
    page = operator.get(f"/activity/charts?span=30d&account={client.account.client_id}")
    (begin,) = set(re.findall(r"[?;&]acceptedFrom=([^&\"]+)", page.text))
    now = datetime.now(ZoneInfo(zone))
    assert unquote(begin)[10:] == now.replace(hour=0, minute=0).isoformat(timespec="minutes")[10:]


def test_a_bar_is_as_long_as_its_part_of_the_most(client, hub, operator):
    ago = now_ms() % HOUR + HOUR // 2
    put(hub, client.account, *[(ago, ago - 10, "done")] * 3, (ago, ago - 10, "refused"))
    put(hub, client.account, *[(ago + HOUR, ago + HOUR - 10, "refused")] * 2)
    answer = operator.get(f"/activity/charts?account={client.account.client_id}")
    bars = re.findall(r'<rect class="is-(\w+)" .*? y="(.*?)" height="(.*?)"', answer.text)
    # The axis ends at 4 on a height of 160, and its line of 0 is at 180.
    assert bars == [("late", "100.0", "80.0"), ("good", "60.0", "120.0"), ("late", "20.0", "40.0")]
    lines = re.findall(r'<line class="is-plain" .*? y1="(.*?)"', answer.text)
    assert lines == ["100.0", "20.0"]


@pytest.mark.parametrize(
    ("highest", "top"), [(0, 2), (2, 2), (3, 4), (5, 6), (7, 10), (118, 200), (999_999, 1_000_000)]
)
def test_the_axis_ends_at_a_round_even_number(highest, top):
    assert _axis_top(highest) == top


def test_a_journal_without_actions_has_no_bars(client, operator):
    answer = operator.get(f"/activity/charts?account={client.account.client_id}")
    assert "Nothing happened in this time." in answer.text
    assert "<rect" not in answer.text
    assert "Accepted 0 Done 0" in text_of(answer)


def test_an_unknown_account_is_said_so(operator):
    answer = operator.get("/activity/charts?account=nobody&span=nonsense")
    assert answer.status_code == 404
    assert "nobody" in text_of(answer)


def test_one_statement_reads_a_history_from_indexes(client, hub):
    """So that its cost stays that of an index however long requests are."""
    with hub.database.reading() as db:
        said = []
        explain = "explain " if db.dialect == "postgresql" else "explain query plan "
        ask = db.rows

        def rows(statement, params):
            text, values = statement.bound(db.dialect, params)
            plan = db._send(explain + text, values).fetchall()
            said.append(" ".join(str(row[-1]) for row in plan))
            return ask(statement, params)

        if db.dialect == "postgresql":
            db.run("set enable_seqscan = off; set enable_bitmapscan = off")
        db.rows = rows
        one = SimpleNamespace(dialect=db.dialect, reading=lambda: _Lent(db))
        history(one, Span(HOUR, 24))
        if db.dialect == "postgresql":
            db.run("reset enable_seqscan; reset enable_bitmapscan")
    (plan,) = said
    words = ("Index Only Scan using", "COVERING INDEX")[db.dialect == "sqlite"]
    assert f"{words} action_finished" in plan


class _Lent:
    def __init__(self, connection):
        self.connection = connection

    def __enter__(self):
        return self.connection

    def __exit__(self, *_):
        return None
