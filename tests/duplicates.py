"""Pairs of contacts that may be one person, as tests make them."""

from __future__ import annotations

from typing import Any

from crmhub.hub import Hub
from crmhub.identity import possible_duplicates
from crmhub.identity.possible_duplicates import Pair
from crmhub.operators.duplicates import compare_contacts, merge_contacts
from crmhub.operators.duplicates.compare_contacts import Preview
from tests.clients import TESTS, Client

PHONE = "+12025550100"


def listed_pair(hub: Hub, client: Client, one: object, other: object, *shares: str) -> Pair:
    """List two contacts as possible duplicates, as matching does, and return the pair."""
    ids = (str(one), str(other))
    hub.database.transact(
        lambda tx: possible_duplicates.note(tx, client.account, *ids, shares=shares or ("phone",))
    )
    return pair_of(hub, client, *ids)


def two_contacts(hub: Hub, client: Client, **of_second: str) -> tuple[str, str]:
    """Make two contacts that share a phone and are listed; return their ids, the older first."""
    first = client.make(firstname="Ann", email="ann@x.org", phone=PHONE)
    second = {"firstname": "Anne", "lastname": "Lee", "email": "lee@x.org", **of_second}
    ids = str(first), str(client.make(phone=PHONE, **second))
    listed_pair(hub, client, *ids)
    return ids


def pair_of(hub: Hub, client: Client, one: str, other: str) -> Pair:
    with hub.database.reading() as db:
        return possible_duplicates.find(db, client.account, one, other)


def pairs(hub: Hub, client: Client, state: str = "open") -> list[set[str]]:
    """Return the ids of the listed pairs of a state, the newest pair first."""
    with hub.database.reading() as db:
        found = possible_duplicates.listed(db, client.account, state=state, limit=100)
    return [{*pair.ids} for pair in found]


def preview(hub: Hub, client: Client, one: str, other: str, **how: Any) -> Preview:
    return compare_contacts.preview(hub, client.account, one, other, **how)


def merge(hub: Hub, client: Client, one: str, other: str, **how: Any) -> Pair:
    """Merge a pair as its preview is now."""
    version = preview(hub, client, one, other).version
    return merge_contacts.merge(hub, client.account, one, other, version=version, by=TESTS, **how)


def unmerge(hub: Hub, client: Client, one: str, other: str) -> Pair:
    return merge_contacts.unmerge(hub, client.account, one, other, by=TESTS)


def dismiss(hub: Hub, client: Client, one: str, other: str, **how: Any) -> Pair:
    return merge_contacts.dismiss(hub, client.account, one, other, by=TESTS, **how)
