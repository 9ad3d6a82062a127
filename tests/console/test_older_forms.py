"""A form that shows an older state than the stored one is refused, with the present values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from werkzeug.test import TestResponse

from crmhub.hub import Hub
from crmhub.operators.accounts import change_account
from crmhub.operators.events import event_subscriptions
from crmhub.operators.users import console_users as users
from tests.clients import TESTS, Client
from tests.consoles import PASSWORD, Operator, fault_of, text_of, unused_email
from tests.events.receivers import HOOK


@dataclass(frozen=True)
class Case:
    """A form at `path`: its values, another author's change, and the text that shows the latter."""

    page: str
    path: str
    form: dict[str, Any]
    change: Callable[[], object]
    changed_field: str
    present: str


def cases(hub: Hub, client: Client) -> list[Case]:
    name = client.account.client_id
    account = f"/accounts/{name}"
    user = users.create_user(hub, unused_email(), PASSWORD, role="reader", by=TESTS)
    made = event_subscriptions.add(hub, name, url=HOOK, types=["deal.created"], by=TESTS)
    subscription = f"{account}/events/{made.subscription.id}/change"

    def settings(**values: str) -> Callable[[], object]:
        return lambda: change_account.change(hub, name, values, by=TESTS)

    return [
        Case(
            account,
            account,
            {"name": "Acme", "deadline_s": "3", "region": "US", "bare_tokens": "true"},
            settings(region="DE"),
            "region",
            'value="DE"',
        ),
        Case(
            f"{account}/bots",
            f"{account}/bots/answers",
            {"answer_format": "chatfuel", "allowed_origins": "https://a.example"},
            settings(allowed_origins="https://b.example"),
            "allowed_origins",
            'value="https://b.example"',
        ),
        Case(
            f"/users/{user.user_id}",
            f"/users/{user.user_id}",
            {"role": "operator", "scope": "all"},
            lambda: users.set_role(hub, user.email, "support", None, by=TESTS),
            "role",
            'value="support" selected',
        ),
        Case(
            subscription,
            subscription,
            {"url": f"{HOOK}mine", "type": ["deal.created"]},
            lambda: event_subscriptions.change(
                hub, name, made.subscription.id, url=f"{HOOK}theirs", by=TESTS
            ),
            "url",
            f'value="{HOOK}theirs"',
        ),
    ]


def seen(page: TestResponse) -> str:
    """Return the version that the form of the page carries."""
    forms = re.findall(r"<form.*?</form>", page.text, re.DOTALL)
    (form,) = (one for one in forms if 'name="seen"' in one)
    found = re.search(r'name="seen" value="([0-9a-f]{64})"', form)
    assert found is not None
    return found[1]


@pytest.mark.databases("sqlite", "postgresql")
def test_an_older_form_is_refused_and_shows_the_present_values(
    hub: Hub, client: Client, operator: Operator
) -> None:
    for case in cases(hub, client):
        older = case.form | {"seen": seen(operator.get(case.page))}
        case.change()
        answer = operator.send(case.path, older, at=case.page)
        assert answer.status_code == 409, case.path
        assert "changed by somebody else meanwhile, and nothing was saved" in text_of(answer)
        assert case.present in answer.text
        # What the older form said is not lost.
        assert "Your form said: " in fault_of(answer, case.changed_field)
        assert case.present in operator.get(case.page).text
        newer = case.form | {"seen": seen(answer)}
        assert operator.send(case.path, newer, at=case.page).status_code == 303


def test_a_form_is_not_refused_for_a_change_of_what_it_does_not_show(
    hub: Hub, client: Client, operator: Operator
) -> None:
    account = f"/accounts/{client.account.client_id}"
    version = seen(operator.get(f"{account}/bots"))
    change_account.change(hub, client.account.client_id, {"region": "DE"}, by=TESTS)
    form = {"answer_format": "manychat", "allowed_origins": "", "seen": version}
    answer = operator.send(f"{account}/bots/answers", form, at=f"{account}/bots")
    assert answer.status_code == 303
