"""A link for a customer, and going back to a former CRM, by command."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.databases("sqlite")
LINK = ("account", "link", "acme", "hubspot", "--secret", "client_id=@id")


@pytest.fixture
def acme(crmhub: CommandLine) -> CommandLine:
    crmhub("account", "create", "Acme")
    for name in ("id", "secret", "token"):
        (crmhub.root / name).write_text(f"the {name}\n")
    return crmhub


def test_a_link_is_printed_for_the_public_address(acme: CommandLine) -> None:
    missing = acme(*LINK, "--secret", "client_secret=@secret", code=1).stderr
    assert "CRMHUB_PUBLIC_URL" in missing
    acme.env["CRMHUB_PUBLIC_URL"] = "https://hub.example.com/"
    made = acme.json(*LINK, "--secret", "client_secret=@secret", "--days", "3")
    assert made["url"].startswith("https://hub.example.com/console/connect/link/acme.")
    assert made.keys() == {"url", "expiresAt"}
    (entry,) = acme.json("audit", "list", "--object", "connectLink")
    assert entry["after"] == {"adapter": "hubspot", "expiresAt": made["expiresAt"]}
    assert "client_secret" in acme(*LINK, code=1).stderr


def test_a_former_crm_is_restored(acme: CommandLine) -> None:
    to_hubspot = ("account", "adapter", "acme", "hubspot")
    acme(*to_hubspot, "--set", "api_version=v3", "--secret", "access_token=@token")
    acme("account", "adapter", "acme", "local")
    assert "access token" in acme(*to_hubspot, code=1).stderr
    acme(*to_hubspot, "--restore")
    told = acme("account", "show", "acme").stdout
    assert "hubspot, api_version=v3, access_token (secret)" in told
    assert "uses hubspot now" in acme(*to_hubspot, "--restore", code=1).stderr
