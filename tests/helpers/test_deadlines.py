"""How long a call may take, and how long it may wait for its turn."""

from __future__ import annotations

import time

import pytest

from crmhub.crm.deadlines import is_queued, patience, remaining, within


def test_a_call_within_another_has_no_more_time_than_that() -> None:
    with within(1), within(5):
        assert remaining() <= 1
    with within(5), within(1):
        assert remaining() <= 1


def test_nothing_remains_when_the_time_is_over() -> None:
    with within(0.01):
        time.sleep(0.02)
        assert remaining() == patience() == 0


def test_who_has_not_begun_waits_a_share_of_its_time_and_then_all_of_it() -> None:
    with within(8000):
        assert patience() == pytest.approx(2000, abs=500)
        assert patience() == pytest.approx(8000, abs=500)
    with within(8000):
        assert patience() == pytest.approx(2000, abs=500)


def test_a_queued_call_may_always_wait() -> None:
    with within(8000, queued=True):
        assert is_queued()
        assert patience() == pytest.approx(8000, abs=500)
    assert not is_queued()
