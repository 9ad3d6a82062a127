"""Two contacts or companies are merged by their ids."""

from __future__ import annotations

from functools import partial
from typing import Any

import flask
import pytest

from crmhub.audit import Wanted, listed
from crmhub.hub import Hub
from crmhub.operators.duplicates import merge_contacts
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    GET_PROPERTIES,
    SET_PROPERTIES,
    known,
)
from tests.api.http.test_authentication import new_key
from tests.api.refusals import refused
from tests.api.test_archived import ARCHIVED, archive, restore
from tests.api.test_associations import EMPTY, create, linked, read
from tests.clients import TESTS, Client, open_client
from tests.events.receivers import subscribe
from tests.events.test_record_events import written
from tests.pages import fetch
from tests.records.meanwhile import at_once
from tests.records.test_merging import sound

MERGEABLE = ("contacts", "companies")
both = pytest.mark.parametrize("resource", MERGEABLE)


def merge(client: Client, resource: str, keep: int, other: int, **properties: Any) -> Any:
    body = {"keep": keep, "merge": other, **({"properties": properties} if properties else {})}
    answer = client.post(f"/{resource}/merge", body)
    assert answer.status_code == 200, answer.text
    return answer.get_json()


@both
def test_the_kept_record_has_the_values_and_links_of_both(
    hub: Hub, client: Client, resource: str
) -> None:
    deals = [client.make("deals") for _ in range(3)]
    keep = create(client, resource, deals=deals[:2])["id"]
    other = create(client, resource, deals=deals[1:])["id"]
    client.patch(f"/{resource}/{keep}", {"properties": {"city": "Rome"}})
    client.patch(f"/{resource}/{other}", {"properties": {"city": "Oslo", "zip": "1", "state": "x"}})
    before = read(client, resource, keep)
    subscribe(hub, client, "*")
    body = {"keep": keep, "merge": other, "properties": {"state": "", "country": "Italy"}}
    answer = client.post(f"/{resource}/merge", body)
    merged = answer.get_json()
    added = {"zip": "1", "country": "Italy"}
    assert merged["properties"] == {**before["properties"], **added}
    assert merged["associations"]["deals"] == sorted(deals)
    assert merged["updatedAt"] > before["updatedAt"]
    assert merged == read(client, resource, keep)
    assert answer.headers["ETag"] == client.get(f"/{resource}/{keep}").headers["ETag"]
    refused(client.get(f"/{resource}/{other}"), 404)
    assert [linked(client, "deals", deal, resource) for deal in deals] == [[keep]] * 3
    assert [each["id"] for each in fetch(client, f"/{resource}{ARCHIVED}")["results"]] == [other]
    singular = {"contacts": "contact", "companies": "company"}[resource]
    told = dict(written(hub, client))
    assert set(told) == {f"{singular}.merged", f"{singular}.archived", "association.changed"}
    assert told[f"{singular}.merged"]["mergedId"] == other
    assert told[f"{singular}.archived"]["mergedInto"] == keep
    with hub.database.reading() as db:
        [entry] = listed(db, Wanted(account_id=client.account.id, verb="merge"), limit=5)
    assert (entry.by.kind, entry.client_id) == ("key", client.account.client_id)
    sound(hub, client)


@both
def test_a_merge_that_is_refused_changes_nothing(hub: Hub, client: Client, resource: str) -> None:
    one, two, gone = (client.make(resource) for _ in range(3))
    archive(client, resource, gone)
    body: Any
    for body, status, part in (
        ({"keep": one, "merge": one}, 422, "merge"),
        ({"keep": one, "merge": gone}, 404, "merge: There is no"),
        ({"keep": gone, "merge": one}, 404, "keep: There is no"),
        ({"keep": 1, "merge": two}, 404, "1"),
        ({"keep": one, "merge": 10**40}, 404, ""),
        ({"keep": -1, "merge": two}, 404, "-1"),
        ({"keep": 0, "merge": two}, 404, "0"),
        ({"keep": one}, 400, "merge"),
        ({"merge": two}, 400, "keep"),
        ({"keep": str(one), "merge": two}, 400, "keep"),
        ({"keep": one, "merge": two, "into": 1}, 400, "into"),
        ({"keep": one, "merge": two, "properties": []}, 400, "properties"),
        ({"keep": one, "merge": two, "properties": {"no_such": "x"}}, 422, "properties.no_such"),
        ({"keep": one, "merge": two, "properties": {"city": {}}}, 400, "properties.city"),
    ):
        assert part in refused(client.post(f"/{resource}/merge", body), status)
    refused(client.get(f"/{resource}/merge"), 405)
    refused(client.post(f"/{resource}/merge?x=1", {"keep": one, "merge": two}), 400)
    assert fetch(client, f"/{resource}")["total"] == 2
    sound(hub, client)


@pytest.mark.parametrize("resource", ["deals", "tickets"])
def test_deals_and_tickets_are_not_merged(client: Client, resource: str) -> None:
    ids = {"keep": client.make(resource), "merge": client.make(resource)}
    refused(client.post(f"/{resource}/merge", ids), 404)


def test_a_merge_needs_the_scope_to_write(hub: Hub, client: Client) -> None:
    ids = {"keep": client.make(), "merge": client.make()}
    for path, body in (("/contacts/merge", ids), (f"/contacts/{ids['keep']}/restore", None)):
        key = new_key(hub, client, "contacts:read").api_key
        refused(client.post(path, body, headers={"service-apikey": key}), 403)


def test_unique_values_of_both_and_of_a_third(hub: Hub, client: Client) -> None:
    keep, other = client.make(email="a@example.com"), client.make(email="b@example.com")
    third = client.make(email="c@example.com")
    body = {"keep": keep, "merge": other, "properties": {"email": "c@example.com"}}
    answer = client.post("/contacts/merge", body)
    assert refused(answer, 409).endswith(f"Existing ID: {third}")
    assert answer.headers["Location"] == f"{client.base}/contacts/{third}"
    merged = merge(client, "contacts", keep, other, email="b@example.com")
    assert merged["properties"]["email"] == "b@example.com"
    client.make(email="a@example.com")
    sound(hub, client)


def test_both_together_may_be_too_long(client: Client) -> None:
    for n in range(4):
        client.post("/properties/contacts", {"name": f"p{n}", "type": "text"})
    keep = client.make(p0="x" * 60_000, p1="x" * 60_000)
    other = client.make(p2="x" * 60_000)
    ids = {"keep": keep, "merge": other}
    assert "p2" in refused(client.post("/contacts/merge", ids), 422)
    merge(client, "contacts", keep, other, p0="")


def test_a_merge_with_a_key_is_done_once(client: Client) -> None:
    ids = {"keep": client.make("companies"), "merge": client.make("companies")}
    again = {"headers": {"Idempotency-Key": "merge-1"}}
    first, second = (client.post("/companies/merge", ids, **again) for _ in range(2))
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json == first.json
    assert second.headers["Idempotent-Replayed"] == "true"


def test_a_merged_company_can_be_restored(hub: Hub, client: Client) -> None:
    contact = client.make()
    keep = client.make("companies", name="Kept")
    other = create(client, "companies", contacts=[contact])
    merge(client, "companies", keep, other["id"])
    restored = restore(client, "companies", other["id"])
    assert restored["properties"] == other["properties"]
    assert linked(client, "contacts", contact, "companies") == sorted((keep, other["id"]))
    sound(hub, client)


def test_an_archived_record_is_restored_to_the_kept_one(hub: Hub, client: Client) -> None:
    keep, other = client.make("companies"), client.make("companies")
    contact = create(client, "contacts", companies=[other])["id"]
    archive(client, "contacts", contact)
    merge(client, "companies", keep, other)
    assert restore(client, "contacts", contact)["associations"] == {**EMPTY, "companies": [keep]}
    sound(hub, client)


# --- contacts of conversations ---------------------------------------------------------------


def test_later_calls_follow_and_an_operator_can_unmerge(hub: Hub, client: Client) -> None:
    keep, other = (
        int(known(client, name, name=name, email=f"{name}@example.com")) for name in ("ann", "bea")
    )
    deal = client.make("deals")
    client.put(f"/contacts/{other}/associations/deals/{deal}")
    merge(client, "contacts", keep, other, city="Rome")
    body: dict[str, Any] = {"contactToken": "bea", "props": ["email", "city"]}
    told = client.helper(GET_PROPERTIES, body).json
    assert (told["email"], told["city"]) == ("ann@example.com", "Rome")
    body = {"contactId": str(other), "properties": {"dealname": "A deal"}}
    assert client.helper(CREATE_DEAL, body).json["contactId"] == str(keep)
    assert known(client, "new", email="bea@example.com") == str(keep)
    message = refused(client.post(f"/contacts/{other}/restore", None), 409)
    assert f"merged into contact {keep}" in message
    by_ids = (hub, client.account, str(keep), str(other))
    pair = merge_contacts.unmerge(*by_ids, by=TESTS)
    assert (pair.state, pair.shares) == ("open", ())
    for id, email in ((keep, "ann@example.com"), (other, "bea@example.com")):
        properties = read(client, "contacts", id)["properties"]
        assert (properties["email"], properties.get("city")) == (email, None)
    assert linked(client, "deals", deal, "contacts") == [other]
    body = {"contactToken": "bea", "props": {"city": "Oslo"}}
    assert client.helper(SET_PROPERTIES, body).json["contactId"] == str(other)
    sound(hub, client)


def test_contacts_of_an_account_with_another_crm_are_records_only(
    app: flask.Flask, hub: Hub
) -> None:
    client = open_client(app, adapter="hubspot")
    keep, other = client.make(city="Rome"), client.make(zip="1")
    merged = merge(client, "contacts", keep, other)
    assert (merged["properties"]["city"], merged["properties"]["zip"]) == ("Rome", "1")
    assert restore(client, "contacts", other)["properties"]["zip"] == "1"
    sound(hub, client)


@pytest.mark.databases("sqlite", "postgresql")
@both
def test_a_merge_both_ways_at_once_leaves_one(
    app: flask.Flask, hub: Hub, client: Client, resource: str
) -> None:
    callers = [Client(app, client.account, client.ids) for _ in range(2)]
    for _ in range(6):
        one, two = client.make(resource), client.make(resource)
        answers = at_once(
            partial(callers[0].post, f"/{resource}/merge", {"keep": one, "merge": two}),
            partial(callers[1].post, f"/{resource}/merge", {"keep": two, "merge": one}),
        )
        assert sorted(each.status_code for each in answers) == [200, 404]
    assert fetch(client, f"/{resource}")["total"] == 6
    sound(hub, client)
