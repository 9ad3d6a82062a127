"""Enrolments: `/workflows/{workflowId}/enrolments/{contactId}`, which getType answers with."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients import Client

PHONE = "+12025550123"


def path(workflow: str, contact: int | str) -> str:
    return f"/workflows/{workflow}/enrolments/{contact}"


def active(client: Client) -> Any:
    """Return the workflow that getType finds for the contact with PHONE."""
    body = {"contactnumber": PHONE, "interval": 48, "lastChatInterval": 0}
    answer = client.helper("/chatbot/getType/{generated}", body)
    assert answer.status_code == 200, answer.text
    return answer.json["workflowId"]


def test_an_enrolled_contact_is_in_its_workflow(client: Client) -> None:
    id = client.make(phone=PHONE)
    assert active(client) == ""
    answer = client.put(path("onboarding", id))
    assert (answer.status_code, answer.data) == (204, b"")
    assert active(client) == "onboarding"


def test_enrolling_again_makes_the_workflow_the_newest(client: Client) -> None:
    id = client.make(phone=PHONE)
    for workflow in ("one", "two", "one"):
        assert client.put(path(workflow, id)).status_code == 204
    assert active(client) == "one"
    client.delete(path("one", id))
    assert active(client) == "two"


def test_a_contact_that_left_is_in_no_workflow(client: Client) -> None:
    id = client.make(phone=PHONE)
    client.put(path("onboarding", id))
    answer = client.delete(path("onboarding", id))
    assert (answer.status_code, answer.data) == (204, b"")
    assert active(client) == ""
    assert client.delete(path("onboarding", id)).status_code == 404


@pytest.mark.parametrize("workflow", ["1234567", "a b", "Ä%20b", "%E2%82%AC", "a.b;c=d", "x" * 255])
def test_a_workflows_id_is_any_printable_text(client: Client, workflow: str) -> None:
    id = client.make(phone=PHONE)
    assert client.put(path(workflow, id)).status_code == 204
    assert active(client) != ""
    assert client.delete(path(workflow, id)).status_code == 204


@pytest.mark.parametrize("workflow", ["%20", "a%0Ab", "%00", "x" * 256])
def test_what_is_no_workflow_id_is_refused(client: Client, workflow: str) -> None:
    id = client.make()
    assert client.put(path(workflow, id)).status_code == 400
    assert client.delete(path(workflow, id)).status_code == 400


@pytest.mark.parametrize("contact", ["999", "0", "-1", "abc", "9" * 30, "1e3", "%F0%9D%84%9E"])
def test_an_unknown_contact_is_not_found(client: Client, contact: str) -> None:
    answer = client.put(path("onboarding", contact))
    assert answer.status_code == 404
    assert answer.json["category"] == "NotFoundError"
    assert answer.json["message"].startswith("contactId: there is no contact ")
    assert "; send the id" in answer.json["message"]


def test_an_archived_contact_cannot_be_enrolled(client: Client) -> None:
    id = client.make()
    client.delete(f"/contacts/{id}")
    assert client.put(path("onboarding", id)).status_code == 404


def test_enrolments_belong_to_an_account(client: Client, other: Client) -> None:
    id = client.make(phone=PHONE)
    client.put(path("onboarding", id))
    assert other.delete(path("onboarding", id)).status_code == 404
    other.make(phone=PHONE)
    assert (active(client), active(other)) == ("onboarding", "")
