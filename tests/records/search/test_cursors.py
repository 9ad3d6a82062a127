"""What a cursor holds: ids that are short where they lie close together, and older forms."""

from __future__ import annotations

import random

import pytest

from crmhub.records.search.cursor import Cursor, packed, sealed, unpacked, unseal
from crmhub.records.search.pages import _FEW_SHOWN, _LONGEST_COUNTED
from crmhub.records.search.query import _MOST_SHOWN

CLOSE = random.Random(7).sample(range(222_000_000_000, 222_002_000_000), 999)


@pytest.mark.parametrize(
    "ids", [[], [1], [127, 128, 129], [2**53, 10**12, 1, 16_384], CLOSE], ids=len
)
def test_ids_come_out_as_they_went_in(ids: list[int]) -> None:
    text = packed(ids)
    assert text.isascii()
    assert unpacked(text) == sorted(ids)


def test_a_thousand_of_one_account_are_short() -> None:
    assert len(packed(CLOSE)) <= 2800


def test_a_cursor_without_the_newest_field_is_read() -> None:
    now = Cursor(1, 2, "updated_at", True, 20, ("email",), (), "of these", 7, 1000, 900, 5)
    older = sealed([1, *now[:-1]], b"key")
    assert unseal(older, b"key", account_id=1, kind=2) == now
    assert unseal(now.seal(b"key"), b"key", account_id=1, kind=2) == now


def test_a_cursor_fits_into_an_address() -> None:
    """Proxies take 8,000 characters; of the two lists of ids one may be long."""
    ids = range(2**53 - _MOST_SHOWN, 2**53)
    for shown, counted in ((tuple(ids), ""), (tuple(ids[:_FEW_SHOWN]), "x" * _LONGEST_COUNTED)):
        long = Cursor(
            2**15, 4, "updated_at", True, 100, None, (), "0" * 16, 10**9, 2**53, 2**53, 2**53
        )._replace(settled=2**53, shown=shown, counted=counted, everything=10**9)
        long = long._replace(since=(("updated_at", 2**53), ("created_at", 2**53)))
        assert len(long.seal(b"key")) < 7500
