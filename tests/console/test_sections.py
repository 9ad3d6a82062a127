"""The header marks the section of every page, not only that of its first page."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.databases("sqlite")


@pytest.mark.parametrize(
    ("path", "section"),
    [
        ("/accounts/new", "Accounts"),
        ("/records/{client_id}/contacts", "Accounts"),
        ("/activity/charts", "Activity"),
        ("/tokens", "Users"),
        ("/plans", "Hub"),
    ],
)
def test_the_header_marks_the_section_of_a_page(operator, client, path, section):
    page = operator.get(path.format(client_id=client.account.client_id)).text
    head = page.partition("</header>")[0]
    assert re.findall(r'aria-current="page">([^<]+)<', head) == [section]
