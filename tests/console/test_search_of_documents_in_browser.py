"""Plain questions, typed into the search of the documents, find the section that answers them."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.databases("sqlite")

# What bot builders, integrators and operators type, and where the answer stands. A page without a
# heading answers in its first section.
QUESTIONS = {
    "idempotency": ["integrator/#idempotency-send-a-request-again"],
    "service-apikey": ["integrator/#your-first-request-the-api-key-in-service-apikey"],
    "SSO okta": ["operator/sso/#okta"],
    "phone search lag": ["crms/hubspot/#search-by-phone-lags"],
    "lead twice": ["bots/contacts/"],
    "rate limit": ["integrator/errors/#rate-limits"],
    "cursor expired": ["integrator/paging/#limit-cursor-and-total"],
    "transcript": ["bot-builder/#notes-transcripts-and-tasks"],
    "owner by hours": ["operator/teams/"],
    "backup": ["operator/backup/"],
    "upgrade": ["operator/install/#upgrade"],
    "HubSpot scopes": ["crms/hubspot/#1-create-a-service-key"],
    "why did leads fail": ["operator/actions/#why-leads-fail-and-fixing-all-of-them-at-once"],
    "retry": ["operator/actions/#by-command", "integrator/python/#retries"],
    "webhook signature": ["integrator/events/#verify-the-signature-of-a-webhook"],
    "delete a person gdpr": ["operator/erasing/"],
    "time zone": ["integrator/search/#dates-and-time-zones", "operator/teams/"],
    "n8n": ["builders/#n8n"],
    "search name without accents": ["integrator/search/#names-accents-and-parts-of-words"],
    "several servers": ["scaling/#several-servers-for-the-hub"],
}
_FIRST = 3


def test_plain_questions_are_answered_among_the_first_three(page: Page) -> None:
    page.goto("/docs/")
    wrong = {}
    for question, answers in QUESTIONS.items():
        found = _search(page, question)
        if not {*answers} & {*found}:
            wrong[question] = found
    assert wrong == {}


def test_each_answer_has_its_heading(page: Page) -> None:
    for address in {address for answers in QUESTIONS.values() for address in answers}:
        page.goto(f"/docs/{address}")
        _, _, name = address.partition("#")
        expect(page.locator(f"[id='{name}']" if name else "h1")).to_be_attached()


def _search(page: Page, question: str) -> list[str]:
    """Return the pages and headings of the first results for a question.

    A result is a page with its sections that match; less good ones are folded up below it.
    """
    box = page.get_by_role("textbox", name="Search")
    number = page.locator(".md-search-result__meta")
    box.click()
    box.fill("")
    box.press("End")
    expect(number).to_have_text("Type to start searching")
    # All at once: no result of the first letters can be taken for that of the question.
    box.fill(question)
    box.press("End")
    expect(number).to_contain_text("matching document")
    links = page.locator(f".md-search-result__item:nth-child(-n + {_FIRST}) a")
    return [_address(link) for link in links.evaluate_all("(all) => all.map(({ href }) => href)")]


def _address(link: str) -> str:
    """Return the page and heading of a link of the search, below /docs/."""
    parts = urlsplit(link)
    return parts.path.removeprefix("/docs/") + (f"#{parts.fragment}" if parts.fragment else "")
