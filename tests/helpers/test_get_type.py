"""Enrolments: only of contacts there are, and only once."""

from __future__ import annotations

import pytest

from crmhub.errors import BadRequest, NotFound
from crmhub.helpers.enrolments import enrol, unenrol
from crmhub.hub import Hub
from tests.clients import Client


def test_a_contact_that_does_not_exist_is_not_enrolled(
    hub: Hub, client: Client, other: Client
) -> None:
    for contact_id in ("1", "hub-unknown", str(other.make())):
        with pytest.raises(NotFound):
            enrol(hub, client.account, workflow_id="w", contact_id=contact_id)


def test_what_is_not_enrolled_cannot_be_taken_back(hub: Hub, client: Client) -> None:
    contact_id = str(client.make())
    enrol(hub, client.account, workflow_id="w", contact_id=contact_id)
    enrol(hub, client.account, workflow_id="w", contact_id=contact_id)
    unenrol(hub, client.account, workflow_id="w", contact_id=contact_id)
    with pytest.raises(NotFound):
        unenrol(hub, client.account, workflow_id="w", contact_id=contact_id)


@pytest.mark.parametrize("workflow_id", ["", " ", "w" * 256, "a\nb", "\0"])
def test_a_workflow_id_that_cannot_be_is_refused(
    hub: Hub, client: Client, workflow_id: str
) -> None:
    with pytest.raises(BadRequest, match="workflowId"):
        enrol(hub, client.account, workflow_id=workflow_id, contact_id=str(client.make()))
