"""crmhub sync status: what the copy holds, and whether the CRM's webhooks are set up."""

from __future__ import annotations

import pytest

from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.databases("sqlite")


@pytest.fixture
def acme(crmhub: CommandLine) -> CommandLine:
    """An account whose CRM has a copy that no worker loads."""
    crmhub("account", "create", "Acme")
    (crmhub.root / "token.txt").write_text("0123456789abcdef")
    where = ("--set", "base_url=https://acme.pipedrive.com", "--secret", "api_token=@token.txt")
    crmhub("account", "adapter", "acme", "pipedrive", *where)
    crmhub("account", "set", "acme", "mirror=true")
    return crmhub


def test_status_says_why_webhooks_are_not_set_up_and_what_to_do(acme: CommandLine) -> None:
    said = acme("sync", "status", "acme").stdout
    assert "CRMHUB_PUBLIC_URL" in said
    assert "/crm-changes/acme/" in said


def test_status_says_that_a_worker_sets_webhooks_up(acme: CommandLine) -> None:
    public = CommandLine(acme.root, {**acme.env, "CRMHUB_PUBLIC_URL": "https://hub.example.com"})
    assert "A worker sets up the CRM's webhooks." in public("sync", "status", "acme").stdout
    said = public.json("sync", "status", "acme")
    assert [one["kind"] for one in said["copies"]] == ["contacts", "deals", "companies", "tickets"]
    address = said["webhooks"].pop("address")
    assert address.startswith("https://hub.example.com/crm-changes/acme/")
    assert said["webhooks"] == {"by_hub": True, "set_at": None, "until": None, "problem": ""}


def test_an_account_without_a_copy_has_none(crmhub: CommandLine) -> None:
    crmhub("account", "create", "Acme")
    assert "has no copy" in crmhub("sync", "status", "acme").stdout
    assert crmhub.json("sync", "status", "acme")["copies"] == []
