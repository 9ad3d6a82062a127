"""ETag and If-Match: a change is made to what was read, or not at all."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import flask
import pytest

from tests.api.refusals import header_faults, refused
from tests.clients import Client, needed
from tests.pages import fetch
from tests.records.meanwhile import at_once

TEXT = {"contacts": "city", "deals": "hs_next_step", "companies": "city", "tickets": "content"}


def tag_of(client: Client, path: str) -> str:
    return client.get(path).headers["ETag"]


def patch(client: Client, path: str, tag: str | None, **properties: Any) -> Any:
    headers = {} if tag is None else {"If-Match": tag}
    return client.patch(path, {"properties": properties}, headers=headers)


def test_create_read_and_update_answer_with_the_etag(client: Client, resource: str) -> None:
    created = client.post(f"/{resource}", {"properties": needed(resource)})
    path = f"/{resource}/{created.get_json()['id']}"
    changed = patch(client, path, None, **{TEXT[resource]: "x"})
    assert created.headers["ETag"] != changed.headers["ETag"] == tag_of(client, path)
    for answer in (created, changed):
        tag = answer.headers["ETag"]
        assert tag.startswith('"')
        assert tag.endswith('"')


def test_a_change_to_what_was_read_is_made(client: Client, resource: str) -> None:
    path = f"/{resource}/{client.make(resource)}"
    tag = tag_of(client, path)
    answer = patch(client, path, tag, **{TEXT[resource]: "x"})
    assert answer.status_code == 200
    assert answer.headers["ETag"] != tag
    assert client.get(path).get_json()["properties"][TEXT[resource]] == "x"


def test_a_record_that_changed_meanwhile_is_409(client: Client, resource: str) -> None:
    path = f"/{resource}/{client.make(resource)}"
    tag = tag_of(client, path)
    patch(client, path, None, **{TEXT[resource]: "theirs"})
    message = refused(patch(client, path, tag, **{TEXT[resource]: "ours"}), 409)
    assert "If-Match" in message
    assert tag_of(client, path) in message
    refused(client.delete(path, headers={"If-Match": tag}), 409)
    assert client.get(path).get_json()["properties"][TEXT[resource]] == "theirs"
    assert fetch(client, f"/{resource}")["total"] == 1


def test_archiving_takes_if_match_too(client: Client, resource: str) -> None:
    path = f"/{resource}/{client.make(resource)}"
    tag = tag_of(client, path)
    assert client.delete(path, headers={"If-Match": tag}).status_code == 204
    refused(client.delete(path, headers={"If-Match": tag}), 404)
    refused(patch(client, path, tag, **{TEXT[resource]: "x"}), 404)


def test_links_do_not_change_the_etag(client: Client, resource: str) -> None:
    id = client.make(resource)
    path, company = f"/{resource}/{id}", client.make("companies")
    tag = tag_of(client, path)
    assert client.put(f"{path}/associations/companies/{company}").status_code == 204
    assert tag_of(client, path) == tag
    assert patch(client, path, tag, **{TEXT[resource]: "x"}).status_code == 200


def test_a_patch_that_changes_nothing_leaves_the_etag(client: Client, resource: str) -> None:
    path = f"/{resource}/{client.make(resource)}"
    tag = tag_of(client, path)
    for sent in ({}, {TEXT[resource]: ""}, needed(resource)):
        assert patch(client, path, tag, **sent).headers["ETag"] == tag


def test_an_old_state_that_comes_back_is_still_another(client: Client, resource: str) -> None:
    path = f"/{resource}/{client.make(resource)}"
    tag = tag_of(client, path)
    for value in ("x", ""):
        patch(client, path, None, **{TEXT[resource]: value})
    refused(patch(client, path, tag, **{TEXT[resource]: "y"}), 409)


def test_any_of_several_tags_and_the_star_will_do(client: Client, resource: str) -> None:
    path = f"/{resource}/{client.make(resource)}"
    tag = tag_of(client, path)
    for header in (f'"999", {tag}', f"{tag},{tag}", "*", f' {tag} ,"7"'):
        same = patch(client, path, header)
        assert same.status_code == 200, header
    refused(patch(client, path, '"998","999"', **{TEXT[resource]: "x"}), 409)


def test_an_etag_that_a_compressing_proxy_changed_is_compared_by_its_version(
    client: Client,
) -> None:
    path = f"/contacts/{client.make()}"
    old = tag_of(client, path)
    tag = patch(client, path, f"W/{old}", city="Bath").headers["ETag"]
    for sent in ("W/{}", '"{}-gzip"', '"{}-br"', '"{}--gzip"', 'W/"{}-zstd"', 'W/"998",W/{}'):
        now, before = (
            sent.format(each if "/{}" in sent else each.strip('"')) for each in (tag, old)
        )
        assert patch(client, path, now).status_code == 200, now
        refused(patch(client, path, before, city="York"), 409)
        refused(client.delete(path, headers={"If-Match": before}), 409)
    assert client.delete(path, headers={"If-Match": f"W/{tag}"}).status_code == 204


@pytest.mark.databases("sqlite")
def test_a_header_that_is_no_etag_is_400(client: Client) -> None:
    for header in [
        "1", "w/{tag}", 'W/"abc"', "W/3", '"abc"', '"1', "", '"１"', '"-1"', '{tag} "2"',
    ]:  # fmt: skip
        path = f"/contacts/{client.make()}"
        sent = header.format(tag=tag_of(client, path)).encode().decode("latin-1")
        assert "If-Match" in refused(patch(client, path, sent, city="x"), 400), header
        assert "If-Match" in refused(client.delete(path, headers={"If-Match": sent}), 400), header


@pytest.mark.databases("sqlite", "postgresql")
def test_of_changes_at_once_to_the_same_state_one_is_made(
    client: Client, app: flask.Flask, resource: str
) -> None:
    path = f"/{resource}/{client.make(resource)}"
    tag = tag_of(client, path)
    answers = at_once(
        *(
            partial(
                patch,
                Client(app, client.account, client.ids),
                path,
                tag,
                **{TEXT[resource]: f"{n}"},
            )
            for n in range(6)
        )
    )
    assert Counter(each.status_code for each in answers) == {200: 1, 409: 5}
    [made] = (each.get_json() for each in answers if each.status_code == 200)
    assert client.get(path).get_json() == made


@pytest.mark.databases("sqlite", "postgresql")
def test_changes_at_once_of_different_properties_all_survive(
    client: Client, app: flask.Flask
) -> None:
    names = ["city", "state", "zip", "country", "company", "jobtitle"]
    path = f"/contacts/{client.make()}"
    callers = {name: Client(app, client.account, client.ids) for name in names}
    for value in "abcd":
        calls = [
            partial(patch, each, path, None, **{name: value}) for name, each in callers.items()
        ]
        answers = at_once(*calls)
        assert [each.status_code for each in answers] == [200] * len(names)
        properties = client.get(path).get_json()["properties"]
        assert [properties[name] for name in names] == [value] * len(names)
        assert len({each.headers["ETag"] for each in answers}) == len(names)
        assert len({each.get_json()["updatedAt"] for each in answers}) == len(names)


@pytest.mark.databases("sqlite", "postgresql")
def test_creates_at_once_of_the_same_email_make_one_contact(
    client: Client, app: flask.Flask
) -> None:
    for n in range(4):
        body = {"properties": {"email": f"{n}@example.com"}}
        callers = [Client(app, client.account, client.ids) for _ in range(6)]
        answers = at_once(*(partial(each.post, "/contacts", body) for each in callers))
        assert Counter(each.status_code for each in answers) == {201: 1, 409: 5}
        [id] = (each.get_json()["id"] for each in answers if each.status_code == 201)
        for answer in answers:
            if answer.status_code == 409:
                assert refused(answer, 409).endswith(f"Existing ID: {id}")
    assert fetch(client, "/contacts")["total"] == 4


@pytest.mark.databases("sqlite", "postgresql")
def test_archives_at_once_of_one_record_succeed_once(
    client: Client, app: flask.Flask, resource: str
) -> None:
    path = f"/{resource}/{client.make(resource)}"
    callers = [Client(app, client.account, client.ids) for _ in range(4)]
    answers = at_once(*(partial(each.delete, path) for each in callers))
    assert Counter(each.status_code for each in answers) == {204: 1, 404: 3}
    assert fetch(client, f"/{resource}")["total"] == 0


@pytest.mark.databases("sqlite", "postgresql")
def test_batches_at_once_over_the_same_records_wait_for_each_other(
    client: Client, app: flask.Flask
) -> None:
    ids = [client.make() for _ in range(20)]
    calls = []
    for n, name in enumerate(["city", "state", "zip", "country"]):
        order = ids if n % 2 else ids[::-1]
        inputs = [{"id": id, "properties": {name: "x"}} for id in order]
        caller = Client(app, client.account, client.ids)
        calls.append(partial(caller.post, "/contacts/batch/update", {"inputs": inputs}))
    answers = at_once(*calls)
    assert [each.status_code for each in answers] == [200] * 4
    for each in fetch(client, "/contacts")["results"]:
        assert {"city", "state", "zip", "country"} <= each["properties"].keys()


def read_if_none(client: Client, path: str, tags: str, method: str = "GET") -> Any:
    return client.call(method, path, headers={"If-None-Match": tags})


def test_an_unmodified_record_is_304_without_a_body(client: Client, resource: str) -> None:
    path = f"/{resource}/{client.make(resource)}"
    tag = tag_of(client, path)
    for tags in (tag, f"W/{tag}", '"1-gzip"', f'"77", W/{tag} , "x"', "*", " * "):
        for method in ("GET", "HEAD"):
            answer = read_if_none(client, path, tags, method)
            assert (answer.status_code, answer.data) == (304, b"")
            assert answer.headers["ETag"] == tag
            assert not header_faults(answer)
            assert "Content-Type" not in answer.headers
    patch(client, path, None, **{TEXT[resource]: "x"})
    answer = read_if_none(client, path, tag)
    assert answer.status_code == 200
    assert answer.get_json()["properties"][TEXT[resource]] == "x"


def test_if_none_match_that_names_no_version_of_the_record_is_200(client: Client) -> None:
    path = f"/contacts/{client.make(email='ada@example.com')}"
    for tags in ("", "1", '"2"', '"11"', '"1', 'w/"1"', '"1" "1"', "**", "*, x", '"x"', "'1'"):
        answer = read_if_none(client, path, tags)
        assert (answer.status_code, answer.headers["ETag"]) == (200, '"1"'), tags
    # The value may have been another record's when the ETag was read.
    by_value = "/contacts/ada@example.com?idProperty=email"
    assert read_if_none(client, by_value, '"1"').status_code == 200
    refused(read_if_none(client, "/contacts/1", "*"), 404)
