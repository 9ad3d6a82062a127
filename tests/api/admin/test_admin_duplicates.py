"""/admin/v1/accounts/{clientId}/duplicates: possible duplicates, seen and decided by program."""

from __future__ import annotations

import re

import flask

from crmhub.hub import Hub
from tests.admin import Admin, ok, open_admin
from tests.api.refusals import refused
from tests.clients import Client
from tests.duplicates import PHONE, listed_pair, two_contacts
from tests.fakes import FAKE, adapters, fake_client

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z")


def of(client: Client, *parts: str) -> str:
    return "/".join((f"/accounts/{client.account.client_id}/duplicates", *parts))


def test_a_list_tells_the_pair_and_nothing_of_the_persons(
    hub: Hub, admin: Admin, client: Client
) -> None:
    ids = two_contacts(hub, client)
    answer = admin.get(of(client))
    (one,) = ok(answer)["results"]
    assert _MOMENT.fullmatch(one.pop("foundAt"))
    assert one == {
        "contactIds": sorted(ids),
        "shares": ["phone"],
        "state": "open",
        "decidedAt": None,
        "decidedBy": "",
        "keptId": "",
        "unmergeUntil": None,
    }
    assert not [text for text in (PHONE, "Ann", "x.org") if text in answer.text]


def test_pages_hold_every_pair_once_and_are_narrowed(
    hub: Hub, admin: Admin, client: Client, other: Client
) -> None:
    for n in range(5):
        listed_pair(hub, client, f"{n}", "9")
    listed_pair(hub, other, "7", "9")
    ok(admin.post(of(client, "9", "2", "dismiss"), {"reason": "different"}))
    seen, link = [], "?state=open&limit=3"
    for size in (3, 1):
        page = ok(admin.get(of(client) + link))
        assert len(page["results"]) == size
        seen += [one["contactIds"][0] for one in page["results"]]
        link = page["cursor"]["nextLink"]
    assert (sorted(seen), link) == (["0", "1", "3", "4"], "")
    assert len(ok(admin.get(of(client)))["results"]) == 5
    (dismissed,) = ok(admin.get(of(client) + "?state=dismissed"))["results"]
    assert (dismissed["contactIds"], dismissed["decidedBy"]) == (["2", "9"], "tests")
    refused(admin.get(of(client) + "?state=closed"), 400)


def test_a_pair_is_previewed_merged_and_unmerged(hub: Hub, admin: Admin, client: Client) -> None:
    older, newer = two_contacts(hub, client, city="Rome")
    seen = ok(admin.get(of(client, newer, older)))
    assert [one["contactId"] for one in seen["contacts"]] == [older, newer]
    assert seen["contacts"][1]["properties"]["city"] == "Rome"
    assert {one["name"]: (one["from"], one["value"]) for one in seen["properties"]} == {
        "firstname": (older, "Ann"),
        "lastname": (newer, "Lee"),
        "email": (older, "ann@x.org"),
        "phone": (older, PHONE),
        "city": (newer, "Rome"),
    }
    assert (seen["obstacle"], seen["moves"]) == ("", {"conversations": 0, "enrolments": 0})
    assert ok(admin.get(of(client, older, newer) + f"?keep={newer}"))["contacts"][0][
        "contactId"
    ] == (newer)
    body = {"version": seen["version"], "take": {"firstname": newer, "city": int(older)}}
    merged = ok(admin.post(of(client, older, newer, "merge"), body))
    assert (merged["state"], merged["keptId"]) == ("merged", older)
    assert _MOMENT.fullmatch(merged["unmergeUntil"])
    kept = client.get(f"/contacts/{older}").get_json()["properties"]
    assert kept == {"firstname": "Anne", "lastname": "Lee", "email": "ann@x.org", "phone": PHONE}
    opened = ok(admin.post(of(client, newer, older, "unmerge")))
    assert (opened["state"], opened["keptId"], opened["unmergeUntil"]) == ("open", "", None)
    assert client.get(f"/contacts/{newer}").get_json()["properties"]["city"] == "Rome"


def test_what_cannot_be_done_is_told(hub: Hub, admin: Admin, client: Client) -> None:
    older, newer = two_contacts(hub, client)
    merge = of(client, older, newer, "merge")
    version = ok(admin.get(of(client, older, newer)))["version"]
    assert "version: is missing" in refused(admin.post(merge, {}), 400)
    assert "preview" in refused(admin.post(merge, {"version": "9-9"}), 409)
    wrong = {"version": version, "keep": "1"}
    assert "keep: 1 is not in this pair" in refused(admin.post(merge, wrong), 422)
    refused(admin.get(of(client, older, newer) + "?keep=1"), 422)
    assert "not merged" in refused(admin.post(of(client, older, newer, "unmerge")), 409)
    refused(admin.post(of(client, older, newer, "dismiss"), {"reason": "merged"}), 409)
    refused(admin.post(of(client, older, newer, "dismiss"), {"reason": "other"}), 400)
    assert "no possible duplicates" in refused(admin.get(of(client, older, "1")), 404)
    client.delete(f"/contacts/{newer}")
    assert "was deleted" in refused(admin.post(merge, {"version": version}), 409)
    assert "was deleted" in ok(admin.get(of(client, older, newer)))["obstacle"]


def test_contacts_of_another_crm_are_shown_with_their_pages(app: flask.Flask) -> None:
    with adapters(app, FAKE):
        hub: Hub = app.extensions["crmhub"]
        admin = open_admin(app)
        client, crm = fake_client(app)
        crm.contacts |= {"c-1": {"firstname": "Ann"}, "c-2": {"firstname": "Anne"}}
        listed_pair(hub, client, "c-1", "c-2")
        seen = ok(admin.get(of(client, "c-1", "c-2")))
        assert [one["url"] for one in seen["contacts"]] == [
            "https://crm.example.test/c-1",
            "https://crm.example.test/c-2",
        ]
        assert seen["obstacle"] == "These contacts are in Fake. Merge them there."
        assert "Fake" in refused(
            admin.post(of(client, "c-1", "c-2", "merge"), {"version": "1-1"}), 409
        )
        closed = ok(admin.post(of(client, "c-1", "c-2", "dismiss"), {"reason": "merged"}))
        assert (closed["state"], closed["keptId"], closed["unmergeUntil"]) == ("merged", "", None)
