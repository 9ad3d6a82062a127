"""Photographs every page of the console: `python -m tests.console.screenshots DIR`.

At the width of a desktop and of a phone, light and dark, over a hub with a few accounts: to look
at. It prints texts, buttons and links that are too faint, and with `--axe FILE`, the axe.min.js of
the npm package axe-core, what axe finds on each page; it ends with 1 if there is anything. It also
prints the pages that are taller than 1,500 px on a desktop. `--language es` shows the pages that
need no steps before them in Spanish, `pt` in Portuguese. `--documents` makes the pictures of docs/
instead.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from playwright.sync_api import Browser, FilePayload, Page, sync_playwright

from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds
from crmhub.app import create_app
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import set_where
from crmhub.database.tables import action
from crmhub.events import subscriptions
from crmhub.events.event_types import TYPES
from crmhub.hub import Hub
from crmhub.identity import possible_duplicates
from crmhub.operators.accounts import change_account
from crmhub.operators.accounts.open_account import open_account
from crmhub.operators.alerts import alert_tests
from crmhub.operators.crm import field_map_reading, map_fields, set_crm
from crmhub.operators.crm.set_crm import Crm
from crmhub.operators.events import event_subscriptions
from crmhub.operators.failures import fix_group, groups
from crmhub.operators.teams import change_team
from crmhub.operators.users import setup_link
from crmhub.operators.users.console_users import create_token, create_user, invite
from crmhub.settings import Settings
from tests import databases
from tests.adapters.hubspot.hubspot_crm import OAUTH, TOKEN, HubSpotCrm
from tests.api.helpers.helper_calls import (
    ADD_NOTE,
    CREATE_DEAL,
    CREATE_TASK,
    SET_PROPERTIES,
    known,
)
from tests.clients import TESTS, Client
from tests.console.chromium import FLAGS
from tests.console.contrast import faint_texts
from tests.console.past import HOUR, busy_week, give_cause, put
from tests.consoles import PASSWORD
from tests.duplicates import listed_pair, merge
from tests.events.receivers import HOOK
from tests.server.servers import serving

WIDTHS = {"desktop": (1280, 800), "phone": (390, 844)}
TALLEST = 1500
PICTURES = Path(__file__).parents[2] / "docs" / "assets" / "pictures"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
EMAIL = "ops@example.com"
# The console's policy lets no page run a script of another origin, so axe runs by the browser.
_AXE = """async () => (await axe.run()).violations.map(
  (found) => `${found.id}: ${found.help} ${found.nodes.map((node) => node.target).join(" ; ")}`)"""

# Name and path; {acme} is an account on HubSpot, {local} one without a CRM of its own.
PAGES = (
    ("overview", ""),
    ("accounts", "/accounts"),
    ("accounts-none", "/accounts?q=nobody"),
    ("account-new", "/accounts/new"),
    ("account", "/accounts/{acme}"),
    ("account-crm", "/accounts/{acme}/crm"),
    ("account-crm-copied", "/accounts/{copied}/crm"),
    ("account-crm-copy", "/accounts/{acme}/crm/copy"),
    ("account-crm-copy-change", "/accounts/{copied}/crm/copy"),
    ("account-copied", "/accounts/{copied}"),
    ("account-crm-own", "/accounts/{local}/crm"),
    ("account-crm-change", "/accounts/{local}/crm?adapter=hubspot"),
    ("account-field-map", "/accounts/{acme}/field-map"),
    ("account-field-map-none", "/accounts/{local}/field-map"),
    ("account-field-map-rule", "/accounts/{acme}/field-map?kind=deals&name=amount"),
    ("account-imports-none", "/accounts/{acme}/imports"),
    ("account-bots", "/accounts/{acme}/bots"),
    ("account-teams", "/accounts/{local}/teams"),
    ("account-teams-none", "/accounts/{acme}/teams"),
    ("account-team", "/accounts/{local}/teams/Sales"),
    ("account-keys", "/accounts/{acme}/keys"),
    ("account-properties", "/accounts/{acme}/properties?kind=deals"),
    ("account-properties-hub", "/accounts/{local}/properties?kind=tickets"),
    ("account-events", "/accounts/{local}/events"),
    ("account-events-none", "/accounts/{acme}/events"),
    ("account-duplicates", "/accounts/{local}/duplicates"),
    ("account-duplicates-none", "/accounts/{acme}/duplicates?state=dismissed"),
    ("records", "/records/{local}/contacts?property=firstname&operator=EQ&value=Ann"),
    ("records-all", "/records/{local}/contacts"),
    ("records-none", "/records/{acme}/tickets"),
    ("records-copied", "/records/{copied}/contacts"),
    ("activity", "/activity?account={local}"),
    ("activity-search", "/activity?q=ann"),
    ("activity-filters", "/activity?reason=stage&olderThan=1h"),
    ("activity-none", "/activity?account={acme}&state=running"),
    ("activity-retry", "/activity/retry?reason=stage"),
    ("activity-discard", "/activity/discard?account={acme}"),
    ("views", "/views"),
    ("causes", "/activity/causes"),
    ("causes-account", "/activity/causes?account={acme}&when=24h"),
    ("causes-none", "/activity/causes?account={local}&when=yesterday"),
    ("charts-day", "/activity/charts?account={local}"),
    ("charts-week", "/activity/charts?span=7d"),
    ("charts-empty", "/activity/charts?span=30d&account={acme}"),
    ("audit", "/audit"),
    ("users", "/users"),
    ("tokens", "/tokens"),
    ("workers", "/workers"),
    ("plans", "/plans"),
    ("alerts", "/alerts"),
    ("profile", "/profile"),
    ("second-factor", "/profile/second-factor"),
    ("error", "/accounts/nobody"),
)
# Of one thing each: what stands in their paths comes from the samples.
OF_ONE = (
    ("action-done", "/activity/{done}"),
    ("action-queued", "/activity/{queued}"),
    ("action-dead", "/activity/{dead}"),
    ("action-blocked", "/activity/{blocked}"),
    ("cause", "/activity/causes/{cause}"),
    ("cause-fix", "/activity/fixes/{fix}"),
    ("contact", "/activity/contact?account={local}&contact={contact}"),
    ("contact-notes", "/activity/contact?account={local}&contact={noted}"),
    ("duplicate", "/accounts/{local}/duplicates/{contact}/{double}"),
    ("duplicate-merged", "/accounts/{local}/duplicates/{kept}/{merged}"),
    ("duplicate-elsewhere", "/accounts/{acme}/duplicates/70812/70813"),
    ("subscription", "/accounts/{local}/events/{subscription}"),
    ("subscription-off", "/accounts/{local}/events/{switched_off}"),
    ("subscription-change", "/accounts/{local}/events/{subscription}/change"),
    ("record", "/records/{local}/contacts/{contact}"),
    ("record-deal", "/records/{local}/deals/{deal}"),
    ("user", "/users/{user}"),
    ("link", "/join/{link}"),
)
# What the documents show: the upper part of these pages.
DOCUMENTED = ("overview", "cause", "contact-notes", "account-crm", "account-crm-copied")
EXPORT = """Record ID,First Name,Last Name,Email,Lead Status,Create Date,Shoe size,Company name
51,Ada,Lovelace,ada@example.com,New,2024-05-01 10:00,38,Lovelace & Daughters
52,Ærøskøbing,,aero@example.com,Attempted to Contact,2024-05-01 10:00,44,
53,Bob,Nobody,bob(at)example.com,,2024-05-01 10:00,41,"A company with a long name, Inc."
"""
RULES = {
    "contacts": {"position": "jobtitle", "colour": {"constant": "blue", "set": "empty"}},
    "deals": {"dealstage": {"values": {"new": "appointmentscheduled", "won": "closedwon"}}},
}


@dataclass(frozen=True, slots=True)
class Camera:
    """Opens pages of the console, and writes what they look like into a directory."""

    page: Page
    directory: Path
    width: str
    axe: str = ""
    only: str = ""
    findings: list[str] = field(default_factory=list)
    tall: list[str] = field(default_factory=list)
    look: Callable[[str, Camera], None] | None = None

    def shoot(self, name: str) -> None:
        """Write a picture of the present page, and note its faint texts, its faults and its height.

        With `look`, nothing is written: it looks at the page under this name.
        """
        if self.only not in name:
            return
        if self.look:
            self.look(name, self)
            return
        self.page.screenshot(path=self.directory / f"{name}-{self.width}.png", full_page=True)
        height: int = self.page.evaluate("document.documentElement.scrollHeight")
        if height > TALLEST and self.width.startswith("desktop"):
            self.tall.append(f"{name}: {height} px")
        if self.axe:
            self.page.evaluate(self.axe)
            found: list[Any] = self.page.evaluate(_AXE)
            self.findings.extend(f"{name}-{self.width}: {finding}" for finding in found)
        faint = faint_texts(self.page)
        self.findings.extend(f"{name}-{self.width}: too faint: {one}" for one in faint)

    def open(self, path: str) -> None:
        self.page.goto(f"/console{path}")


def main() -> None:
    """Write the pictures into the directory named at the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.console.screenshots")
    parser.add_argument("directory", type=Path, nargs="?", help="where the pictures go")
    parser.add_argument("--documents", action="store_true", help="the pictures of docs/ alone")
    parser.add_argument("--language", default="en", choices=("en", "es", "pt"))
    parser.add_argument("--only", default="", help="pictures whose name contains this, alone")
    parser.add_argument("--axe", type=Path, help="axe.min.js of the npm package axe-core")
    given = parser.parse_args()
    if given.directory is None and not given.documents:
        parser.error("name a directory for the pictures, or give --documents")
    directory: Path = PICTURES if given.documents else given.directory
    directory.mkdir(parents=True, exist_ok=True)
    axe = given.axe.read_text() if given.axe else ""
    findings: list[str] = []
    tall: list[str] = []
    with sampled() as (url, names), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=databases.CHROMIUM, args=FLAGS)
        if given.documents:
            photograph_documents(browser, url, names)
            return
        for scheme in SCHEMES:
            for width, (wide, high) in WIDTHS.items():
                context = browser.new_context(
                    base_url=url,
                    viewport={"width": wide, "height": high},
                    device_scale_factor=1,
                    color_scheme=scheme,
                )
                camera = Camera(context.new_page(), directory, f"{width}-{scheme}", axe, given.only)
                photograph(camera, names, given.language)
                findings += camera.findings
                tall += camera.tall if scheme == "light" else []
                context.close()
        browser.close()
    report = [*findings, *tall, f"{len(findings)} findings, {len(tall)} tall pages"]
    sys.stdout.write("\n".join(report) + "\n")
    sys.exit(bool(findings))


def photograph_documents(browser: Browser, url: str, names: dict[str, str]) -> None:
    """Write the pictures of docs/."""
    page = browser.new_page(base_url=url, viewport={"width": 1280, "height": 720})
    page.goto("/console/sign-in")
    sign_in(page)
    for name in DOCUMENTED:
        page.goto(f"/console{dict(PAGES + OF_ONE)[name].format(**names)}")
        page.screenshot(path=PICTURES / f"{name}.png")


def sign_in(page: Page) -> None:
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Sign out").wait_for()


def photograph(camera: Camera, names: dict[str, str], language: str = "en") -> None:
    """Sign in, open each page, and do what leads to the pages that are shown once.

    In another language than English, these pages, to which English labels lead, are left out.
    """
    page = camera.page
    page.set_extra_http_headers({"Accept-Language": language})
    page.goto("/")
    camera.shoot("front-page")
    camera.open(names["setup"])
    camera.shoot("setup")
    camera.open("/sign-in")
    camera.shoot("sign-in")
    page.set_extra_http_headers({"Accept-Language": "en"})
    page.reload()
    sign_in(page)
    page.set_extra_http_headers({"Accept-Language": language})
    for name, path in PAGES + OF_ONE:
        if camera.only in name:
            camera.open(path.format(**names))
            camera.shoot(name)
    if language != "en":
        return
    camera.open(f"/activity/{names['dead']}")
    page.locator("summary").get_by_text("Discard").click()
    camera.shoot("action-dead-decisions")
    refused_crm(page, names["local"], names["hubspot"])
    camera.shoot("account-crm-refused")
    refused_field_map(page, names["acme"])
    camera.shoot("account-field-map-refused")
    previewed_field_map(page, names["acme"])
    camera.shoot("account-field-map-preview")
    camera.open(f"/accounts/{names['acme']}/keys")
    page.get_by_label("Name").fill("Import job")
    page.get_by_role("button", name="Create key").click()
    camera.shoot("account-key")
    photograph_events(camera, names)
    photograph_import(camera, names["local"])
    photograph_connect(camera, names)
    camera.open("/users")
    page.get_by_label("Email").fill(f"new-{camera.width}@example.com")
    page.get_by_role("button", name="Create the invitation").click()
    camera.shoot("user-invited")
    camera.open("/tokens")
    page.get_by_label("Name").fill("Import job")
    page.get_by_role("button", name="Create token").click()
    camera.shoot("token-created")
    camera.open("/accounts/new")
    page.get_by_label("Name").fill(f"A new account on a {camera.width}")
    page.keyboard.press("Enter")
    page.get_by_label("API key").wait_for()
    camera.shoot("account-opened")


def refused_crm(page: Page, client_id: str, url: str) -> None:
    """Save a connection that the HubSpot at `url` refuses; the account has no external CRM."""
    page.goto(f"/console/accounts/{client_id}/crm?adapter=hubspot")
    page.get_by_label("Access token", exact=True).fill("pat-wrong")
    page.get_by_text("More settings").click()
    page.get_by_label("API address").fill(url)
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("alert").get_by_text("Not saved").wait_for()


def refused_field_map(page: Page, client_id: str) -> None:
    """Save a field map with an error; the account has the rules `RULES`."""
    page.goto(f"/console/accounts/{client_id}/field-map")
    for rule in ("dealstage", "position"):
        page.locator(".rule summary").filter(has_text=rule).click()
    page.get_by_label("HubSpot property, deals, rule 1").fill("dealstages")
    page.get_by_label("Values, contacts, rule 1").fill("cook: chef")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("alert").get_by_text("Nothing was saved").wait_for()


def previewed_field_map(page: Page, client_id: str) -> None:
    """Preview a call of which HubSpot would refuse a value; the account has the rules `RULES`."""
    page.goto(f"/console/accounts/{client_id}/field-map")
    page.get_by_text("Try it").click()
    page.get_by_label("Helper").select_option("createDeal")
    page.get_by_label("Properties of the call").fill("dealstage = won\namount = much")
    page.get_by_role("button", name="Preview").click()
    page.get_by_text("createDeal would send").wait_for()


def photograph_events(camera: Camera, names: dict[str, str]) -> None:
    """Add a subscription, test it, and unfold what its page holds."""
    page = camera.page
    camera.open(f"/accounts/{names['acme']}/events")
    page.get_by_label("Address").fill(f"{HOOK}a-{camera.width}")
    page.get_by_label("failing").check()
    page.get_by_role("button", name="Add subscription").click()
    camera.shoot("subscription-secret")
    page.get_by_text("Continue to the subscription").click()
    camera.shoot("subscription-new")
    page.get_by_role("button", name="Send a test event").click()
    page.get_by_text("Test event not delivered").wait_for()
    page.get_by_text("Replay a period").click()
    camera.shoot("subscription-test")
    camera.open(f"/accounts/{names['local']}/events/{names['subscription']}?state=failed")
    page.locator(".table-deliveries summary").first.click()
    page.get_by_text("Disable…").click()
    camera.shoot("subscription-unfolded")


def photograph_import(camera: Camera, client_id: str) -> None:
    """Upload a file, and open each page on the way to its records."""
    page, imports = camera.page, f"/accounts/{client_id}/imports"
    camera.open(imports)
    file: FilePayload = {"name": "hubspot.csv", "mimeType": "text/csv", "buffer": EXPORT.encode()}
    page.get_by_label("File").set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()
    page.get_by_role("button", name="Dry run").wait_for()
    camera.shoot("import-draft")
    page.get_by_label("Property of Lead Status").select_option("email")
    page.get_by_text("How the file is read").click()
    page.get_by_role("button", name="Import 3 rows").click()
    camera.shoot("import-refused")
    page.get_by_label("Property of Lead Status").select_option("hs_lead_status")
    page.get_by_role("button", name="Dry run").click()
    camera.shoot("import-queued")
    page.get_by_text("dry run done").wait_for()
    camera.shoot("import-dry-run")
    page.get_by_role("button", name="Import 3 rows").click()
    page.get_by_text("done, with rejected rows").wait_for()
    camera.shoot("import-done")
    camera.open(imports)
    camera.shoot("account-imports")


def photograph_connect(camera: Camera, names: dict[str, str]) -> None:
    """Connect an account to HubSpot: by an operator whom HubSpot sends back, and by a customer."""
    operator, crm = camera.page, names["hubspot"]
    operator.goto(f"/console/accounts/{names['northwind']}/crm?adapter=hubspot")
    fill_in_app(operator, crm)
    operator.get_by_role("button", name="Connect HubSpot").click()
    operator.get_by_role("button", name="Deny").click()
    operator.get_by_role("heading", name="Not connected").wait_for()
    camera.shoot("connect-denied-operator")
    operator.get_by_role("link", name="Back to the CRM settings").click()
    camera.shoot("account-crm-typed")
    operator.get_by_role("button", name="Create a link for a customer").click()
    camera.shoot("account-crm-link")
    link = operator.get_by_label("Link", exact=True).input_value()
    browser, viewport = operator.context.browser, operator.viewport_size
    assert browser
    scheme: Literal["light", "dark"] = "dark" if camera.width.endswith("dark") else "light"
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    customer = replace(camera, page=context.new_page())
    photograph_customer(customer, link, crm)
    context.close()


def fill_in_app(page: Page, crm: str) -> None:
    """Type what Connect needs into the form of HubSpot: an address and an app."""
    address = page.get_by_label("API address")
    if not address.is_visible():
        page.get_by_text("More settings").click()
    address.fill(crm)
    page.get_by_label("OAuth client id", exact=True).fill(OAUTH["client_id"])
    page.get_by_label("OAuth client secret", exact=True).fill(OAUTH["client_secret"])


def photograph_customer(camera: Camera, link: str, crm: str) -> None:
    """Follow a customer's link: to each page on which it fails, and to its end."""
    page, origin = camera.page, link.partition("/connect/")[0]
    page.goto(link)
    camera.shoot("connect-link")
    # An answer without content: the page that leads to HubSpot stays.
    page.route(f"{crm}/**", lambda route: route.fulfill(status=204))
    page.get_by_role("button", name="Connect HubSpot").click()
    page.get_by_role("heading", name="One moment").wait_for()
    camera.shoot("connect-leave")
    address = page.get_by_role("link", name="continue here").get_attribute("href")
    assert address
    page.unroute(f"{crm}/**")
    # The page leads on by itself, so its link may vanish before it is clicked.
    page.goto(address)
    page.get_by_role("button", name="Deny").click()
    page.get_by_role("heading", name="Not connected").wait_for()
    denied = page.url
    camera.shoot("connect-denied")
    page.goto(denied)
    camera.shoot("connect-approval-used")
    page.get_by_role("link", name="Try again").click()
    page.get_by_role("button", name="Connect HubSpot").click()
    page.get_by_role("button", name="Connect app").click()
    page.get_by_role("heading", name="Connected").wait_for()
    camera.shoot("connect-connected")
    for name, address in (
        ("connect-link-used", link),
        ("connect-link-invalid", f"{origin}/connect/link/nobody.knows.it"),
        ("connect-foreign", f"{origin}/connect/callback?state=x&code=y"),
    ):
        page.goto(address)
        camera.shoot(name)
    page.goto(f"{origin}/sign-in")
    page.get_by_label("Email").fill(EMAIL)
    page.get_by_label("Password").fill("not the right one")
    page.get_by_role("button", name="Sign in").click()
    camera.shoot("sign-in-refused")


@contextmanager
def sampled() -> Iterator[tuple[str, dict[str, str]]]:
    """Serve a hub with something to see; give its address, and what stands in paths."""
    with TemporaryDirectory(prefix="crmhub-screenshots-") as root, HubSpotCrm() as crm:
        given = {
            "database_url": databases.sqlite_database(Path(root)),
            "egress_allow": "127.0.0.0/8",
            # Nobody answers there.
            "alert_chat_url": "http://127.0.0.1:9/hook",
            "alert_email_to": "ann@example.com, bob@example.com",
            "alert_email_from": "hub@example.com",
            "smtp_host": "127.0.0.1",
            "smtp_port": "9",
            "alert_quiet_hours": "22:00-07:00",
            "alert_time_zone": "Europe/Berlin",
        }
        environ = {f"CRMHUB_{name.upper()}": value for name, value in given.items()}
        hub = Hub.open(Settings.load(environ, Path(root)))
        names = {**_samples(hub, crm.url), "hubspot": crm.url}
        alert_tests.start_test(hub, by=TESTS)
        with serving(Path(root), "--workers", "1", **given) as server:
            yield f"http://127.0.0.1:{server.port}", names
        hub.close()


def _samples(hub: Hub, crm: str) -> dict[str, str]:
    create_user(hub, EMAIL, PASSWORD, by=TESTS)
    invitation = invite(
        hub, "someone.with.a.long.name@customer.example.com", role="support", by=TESTS
    )
    create_token(hub, "Night shift", scopes=["actions:read"], expires_at=None, by=TESTS)
    acme, _ = _account(hub, "Acme GmbH & Co. KG", plan="free")
    set_crm.set_crm(
        hub, acme.client_id, Crm("hubspot", {"base_url": crm}, TOKEN), by=TESTS, test=True
    )
    map_fields.set_field_map(
        hub, acme.client_id, field_map_reading.read(RULES), by=TESTS, test=False
    )
    change_account.create_key(
        hub,
        acme.client_id,
        name="Reports",
        scopes=["contacts:read"],
        expires_at=1_924_992_000_000,
        by=TESTS,
    )
    copied, _ = _account(hub, "Copied & Sons")
    set_crm.set_crm(
        hub, copied.client_id, Crm("hubspot", {"base_url": crm}, TOKEN), by=TESTS, test=True
    )
    change_account.change(hub, copied.client_id, {"mirror": True}, by=TESTS)
    local, ids = _account(hub, "Bäckerei Müller")
    closed, _ = _account(hub, "A customer who has left")
    change_account.change(hub, closed.client_id, {}, disabled=True, by=TESTS)
    northwind, _ = _account(hub, "Northwind Traders")
    _account(hub, "A name that is much longer than anybody would have thought")
    busy_week(hub, local)
    followed = _subscriptions(hub, local)
    bot = Client(create_app(hub.settings), local, ids)
    link = setup_link.issue(hub, expires_at=now_ms() + HOUR, by=TESTS)
    limited = [acme.client_id, local.client_id]
    one = create_user(
        hub, "reader@example.com", PASSWORD, role="reader", client_ids=limited, by=TESTS
    )
    calls = _calls(bot)
    _team(hub, local.client_id)
    _deliver(hub, local)
    return {
        **followed,
        "setup": link.path.removeprefix("/console"),
        "acme": acme.client_id,
        "local": local.client_id,
        "copied": copied.client_id,
        "northwind": northwind.client_id,
        "user": one.user_id,
        "link": invitation,
        **calls,
        **_doubles(hub, bot, acme),
        **stuck(hub, hub.load_account(acme.client_id)),
        **_failed(hub, hub.load_account(acme.client_id), hub.load_account(copied.client_id)),
    }


def _failed(hub: Hub, *accounts: Account) -> dict[str, str]:
    """Let deals and leads of accounts have failed for three causes; discard those of the last."""
    keys = []
    for reason, kind in (
        ('dealstage: there is no stage "Won!"; send one of "closedwon"', "createDeal"),
        ("colour: deals have no such property in the CRM", "createDeal"),
        ("email: HubSpot has another record with this email", "createLead"),
    ):
        for account in accounts:
            ids = put(hub, account, *[(3 * HOUR, HOUR, "dead")] * 3, reason=reason)
            for id, stage in zip(ids, ("Won!", "Won!", "lost deals"), strict=True):
                sent = {"contact_id": "1", "properties": {"dealname": "Cake", "dealstage": stage}}
                lead = {"contact_token": "t", "name": "Ann", "email": "a@x.org", "phone": ""}
                request = json.dumps(sent if kind == "createDeal" else lead)
                where = {"account_id": account.id, "id": id}
                hub.database.transact(
                    partial(set_where, table=action, where=where, kind=kind, request=request)
                )
            key = give_cause(hub, account, *ids, kind=kind)
        keys.append(key)
    last = groups.group(hub.database, keys[-1])
    fix = fix_group.start(hub, last, "discard", by=TESTS, reason="Of a test")
    fix_group.run(hub, fix, seconds=60)
    return {"cause": keys[0], "fix": fix}


def _calls(bot: Client) -> dict[str, str]:
    """Call helpers as a bot does; return what came of it."""
    names = (
        "Ann Lee",
        "Ann García Márquez",
        "Bjørn Ærøskøbing",
        "Maximiliane von und zu Hohenfels",
    )
    for i, name in enumerate(names):
        known(bot, f"chat-{i}", name=name, email=f"person-{i}@example.com", phone=f"+4930123456{i}")
    contact = known(bot, "chat-0", name="Ann Lee", email="person-0@example.com", city="Rome")
    note = {"message": "Could you call me back on Monday? " * 30, "city": "Firenze", "rooms": "3"}
    bot.helper(SET_PROPERTIES, {"contactToken": "chat-0", "props": note})
    deal = {"dealname": "Wedding cake <3 tiers>", "amount": "480", "dealstage": "no such stage"}
    made = bot.helper(CREATE_DEAL, {"contactId": contact, "properties": deal}).get_json()
    said = [{"from": "Ann", "text": "Do you bake on Sunday?", "at": "10:15"}]
    said += [{"from": "Bot", "text": "We do, from seven on. " * 8, "at": "10:16"}]
    noted = bot.helper(ADD_NOTE, {"contactToken": "chat-1", "text": said}).get_json()["contactId"]
    task = {"subject": "Call Ann back", "due": "2031-01-31T09:30:00Z", "priority": "high"}
    bot.helper(CREATE_TASK, {"contactId": noted, "properties": task})
    return {"contact": contact, "deal": made["dealId"], "noted": noted}


def _team(hub: Hub, client_id: str) -> None:
    members = ["Ana Ruiz <ana@example.com>", "Bjørn Ærøskøbing <bjorn@example.com>"]
    change_team.set_team(hub, client_id, "Sales", members=members, fallback="boss", by=TESTS)
    hours = {"hours": "mon-fri 09:00-13:00 15:00-18:00", "time_zone": "Europe/Madrid"}
    change_team.set_member(hub, client_id, "Sales", "ana@example.com", **hours, by=TESTS)


def _subscriptions(hub: Hub, account: Account) -> dict[str, str]:
    """Subscribe an address that fails, and one that was switched off."""
    made = [
        event_subscriptions.add(hub, account.client_id, url=f"{HOOK}{path}", types=types, by=TESTS)
        for path, types in (("crm-events", TYPES), ("a/long/path" * 9, ["lead.failed"]))
    ]
    failing, off = (one.subscription.id for one in made)
    reason = "It answered 503."

    def work(tx: Connection) -> None:
        subscriptions.end(tx, account.id, off, "switched_off", reason)

    hub.database.transact(work)
    return {"subscription": failing, "switched_off": off}


def _deliver(hub: Hub, account: Account) -> None:
    """Let some of the account's events be delivered, and some have failed."""
    of = {"account": account.id, "at": now_ms()}

    def work(tx: Connection) -> None:
        tx.run(
            "update event_delivery set state = 'delivered', status = 204, attempts = 1,"
            " finished_at = :at where account_id = :account and subject like 'contacts:%'",
            of,
        )
        tx.run(
            "update event_delivery set state = 'failed', status = 503, attempts = 13,"
            " reason = 'It answered 503.', finished_at = :at"
            " where account_id = :account and subject like 'deals:%'",
            of,
        )

    hub.database.transact(work)


def _doubles(hub: Hub, bot: Client, acme: Account) -> dict[str, str]:
    """List pairs of contacts that may be one person; one of them is merged."""
    ann = known(bot, "chat-0", name="Ann Lee", email="person-0@example.com")
    more = {"company": "Café Lee", "jobtitle": "Head of everything that is baked at night"}
    double = bot.make(firstname="Anne", lastname="Lee", email="anne@example.com", **more)
    listed_pair(hub, bot, ann, double, "phone", "name")
    kept, merged = (bot.make(firstname="Bo", lastname=name) for name in ("Berg", "Bergh"))
    listed_pair(hub, bot, kept, merged)
    merge(hub, bot, str(kept), str(merged))
    hub.database.transact(
        lambda tx: possible_duplicates.note(
            tx, hub.load_account(acme.client_id), "70812", "70813", shares=["phone"]
        )
    )
    return {"double": str(double), "kept": str(kept), "merged": str(merged)}


def stuck(hub: Hub, account: Account) -> dict[str, str]:
    """Leave an action that is done, one that waits, one that failed, and two that it blocks."""
    (done,) = put(hub, account, (2 * HOUR, 2 * HOUR - 1_240, "done"))
    (queued,) = put(hub, account, (40 * 60_000, None, "queued"))
    (dead,) = put(hub, account, (3 * HOUR, HOUR, "dead"), reason="HubSpot answers 403.")
    blocked, _ = put(hub, account, *[(2 * HOUR, HOUR, "parked")] * 2)
    said = {
        dead: [("Unavailable", "HubSpot answers 503."), ("Denied", "HubSpot answers 403: the"
        " token lacks the scope crm.objects.contacts.write.")],
        queued: [("Unavailable", "HubSpot answers 503: Service Unavailable.")],
        done: [("Throttled", "HubSpot answers 429."), ("created", "")],
    }  # fmt: skip
    rows = [
        (account.id, id, number, now_ms() - HOUR // number, 340, word, message, f"corr-{number}f3a")
        for id, tries in said.items()
        for number, (word, message) in enumerate(tries, 1)
    ]
    columns = ("account_id", "action_id", "number", "began_at", "ms", "outcome", "message")
    types = dict.fromkeys((*columns, "correlation_id"), "text")

    def work(tx: Connection) -> None:
        tx.insert("action_try", types, rows)
        tx.run(
            "update action set behind = :dead where account_id = :account and state = 'parked'",
            {"account": account.id, "dead": dead},
        )
        tx.run(
            "update action set mapped = :mapped, request = :request, result = case state"
            " when 'done' then :result end, run_at = :later where account_id = :account",
            {
                "account": account.id,
                "mapped": '{"firstname": "Ann", "lastname": "Lee", "email": "ann@example.com"}',
                "request": '{"contact_token": "chat-19", "name": "Ann Lee",'
                ' "email": "ann@example.com", "properties": {"city": "Rome"}}',
                "result": '{"status": "created", "contact_id": "70812", "record_id": "",'
                ' "url": "https://app.hubspot.com/contacts/1/record/0-1/70812", "refused": []}',
                "later": now_ms() + 240_000,
            },
        )

    hub.database.transact(work)
    return {"done": done, "queued": queued, "dead": dead, "blocked": blocked}


def _account(hub: Hub, name: str, plan: str = "default") -> tuple[Account, IssuedIds]:
    return open_account(hub, name=name, plan=plan, by=TESTS)


if __name__ == "__main__":
    main()
