"""A chat widget on another site calls the helpers from the visitor's browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from crmhub.accounts.changes import IssuedIds
from crmhub.operators.accounts import change_account
from crmhub.operators.accounts.open_account import open_account
from crmhub.secrets import BASE36, token
from tests.clients import TESTS
from tests.console.conftest import Served

pytestmark = pytest.mark.databases("sqlite")

_CALL = """async ([url, body]) => {
  try {
    const answer = await fetch(url, {
      method: 'POST',
      headers: {'Content-Type': 'application/json', 'Idempotency-Key': 'visit-1'},
      body: JSON.stringify(body),
    });
    const id = answer.headers.get('X-Request-Id');
    return {status: answer.status, id, body: await answer.json()};
  } catch (error) {
    return {error: error.message};
  }
}"""
LEAD = {"contactToken": "visit-1", "name": "Ada Lovelace", "email": "ada@example.com"}


class _Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>A site</title>")

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def site() -> Iterator[str]:
    """Serve a page of another origin; gives the origin."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def sites() -> Iterator[tuple[str, str]]:
    """Two origins beside the hub's own."""
    with site() as one, site() as other:
        yield one, other


def open_widget(served: Served, origin: str) -> IssuedIds:
    """Open an account whose helpers the origin may call."""
    account, issued = open_account(served.hub, name=f"Widget {token(30, BASE36)}", by=TESTS)
    values = {"allowed_origins": origin}
    change_account.change(served.hub, account.client_id, values, by=TESTS)
    return issued


def call(page: Page, origin: str, url: str, body: Any) -> Any:
    page.goto(origin)
    return page.evaluate(_CALL, [url, body])


def test_a_page_of_an_allowed_origin_reads_answers_and_errors(
    context: BrowserContext, served: Served, sites: tuple[str, str]
) -> None:
    mine, _ = sites
    issued = open_widget(served, mine)
    url = f"{served.url}/chatbot/createLead/{issued.generated_id}"
    page = context.new_page()
    created = call(page, mine, url, LEAD)
    assert (created["status"], created["body"]["status"]) == (200, "created")
    assert created["id"]
    failed = call(page, mine, url, {"contactToken": "visit-1"})
    assert (failed["status"], failed["body"]["category"]) == (400, "BadRequestError")


def test_a_page_of_a_foreign_origin_cannot_call(
    context: BrowserContext, served: Served, sites: tuple[str, str]
) -> None:
    mine, foreign = sites
    issued = open_widget(served, mine)
    page = context.new_page()
    url = f"{served.url}/chatbot/createLead/{issued.generated_id}"
    assert call(page, foreign, url, LEAD) == {"error": "Failed to fetch"}
    # The browser asked first, and did not send the lead.
    assert call(page, mine, url, LEAD)["body"]["status"] == "created"
    bare = f"{served.url}/chatbot/getProperties"
    assert "error" in call(page, mine, bare, {"contactToken": "visit-1", "props": ["email"]})


def test_the_console_sets_form_and_origins(
    page: Page, served: Served, sites: tuple[str, str]
) -> None:
    mine, _ = sites
    account, issued = open_account(served.hub, name=f"Bots {token(30, BASE36)}", by=TESTS)
    page.goto(f"/console/accounts/{account.client_id}/bots")
    page.get_by_text("Answers and widgets").click()
    page.get_by_label("Form of the answers").select_option(label="Chatfuel: set_attributes")
    page.get_by_label("Websites whose pages may call the helpers").fill(f"{mine}/")
    page.locator("#answers").get_by_role("button", name="Save").click()
    expect(page.locator("#answers")).to_contain_text(f"leave out the path: {mine}")
    page.get_by_label("Websites whose pages may call the helpers").fill(mine)
    page.locator("#answers").get_by_role("button", name="Save").click()
    page.get_by_role("status").get_by_text("Saved").wait_for()
    url = f"{served.url}/chatbot/createLead/{issued.generated_id}"
    assert "set_attributes" in call(page, mine, url, LEAD)["body"]
