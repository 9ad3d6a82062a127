"""crmhub account adapter and adapters: settings checked, secrets never typed and never shown."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from crmhub.adapter import Adapter, Denied, Setting, registry

# The operations behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")


class Fake(Adapter):
    """A CRM with a setting and two secrets, whose `check` looks at one of them."""

    title = "Fake CRM"
    settings = (
        Setting("base_url", "Address", type="url", default="https://api.fake.example"),
        Setting("access_token", "Token", secret=True, required=True),
        Setting("refresh_token", "Refresh token", secret=True),
        Setting("project", "Project for tickets"),
    )
    linked_kinds = {"deals": "", "tickets": "project"}  # noqa: RUF012

    def check(self):
        if self.context.credentials["access_token"] != "right":
            raise Denied("The token was refused; make a new one in the CRM.")

    def find_contact(self, *, email="", phone="", names=()):
        raise NotImplementedError

    def get_contact(self, contact_id, names):
        raise NotImplementedError

    def create_contact(self, properties):
        raise NotImplementedError

    def update_contact(self, contact_id, properties):
        raise NotImplementedError

    def create_for_contact(self, kind, contact_id, properties, *, mark=""):
        raise NotImplementedError


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """Two adapters beside `local`: one that works, one that cannot be imported."""
    found = [
        EntryPoint("local", "adapters.local:LocalAdapter", registry.GROUP),
        EntryPoint("fake", f"{__name__}:Fake", registry.GROUP),
        EntryPoint("broken", "no.such.module:Adapter", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)
    monkeypatch.setattr(EntryPoint, "load", _load)


_real_load = EntryPoint.load


def _load(self):
    # This module is not importable by its name under every way pytest imports it.
    return Fake if self.name == "fake" else _real_load(self)


@pytest.fixture
def acme(crmhub, tmp_path):
    crmhub("account", "create", "Acme")
    (tmp_path / "token").write_text("right\n")
    return crmhub


def test_settings_and_secrets_reach_the_crm_and_secrets_are_not_shown(acme):
    url = "https://eu.fake.example"
    acme(
        "account", "adapter", "acme", "fake", "--set", f"base_url={url}",
        "--secret", "access_token=@token",
    )  # fmt: skip
    assert acme("account", "check", "acme").stdout == "fake: connection test passed.\n"
    shown = acme.json("account", "show", "acme")
    assert shown["adapter"] == "fake"
    assert shown["connection"] == {
        "id": 2,
        "settings": {"base_url": url},
        "secrets": ["access_token"],
    }
    assert "right" not in acme("account", "show", "acme").stdout


def test_create_says_that_settings_are_still_to_come(crmhub):
    told = crmhub("account", "create", "Later", "--adapter", "fake").stdout
    assert "`crmhub adapters fake` lists them, `crmhub account adapter --help`" in told
    assert "account adapter" not in crmhub("account", "create", "Now").stdout
    assert (
        "access_token: this secret is required"
        in crmhub("account", "check", "later", code=1).stderr
    )


def test_check_says_what_is_wrong_and_exits_with_1(acme):
    acme("account", "adapter", "acme", "fake", "--secret", "access_token=-", stdin="wrong\n")
    broken = acme("account", "check", "acme", code=1)
    assert broken.stderr == ("crmhub: fake: The token was refused; make a new one in the CRM.\n")


def test_a_secret_that_is_given_empty_is_removed(acme):
    assert "remove it." in " ".join(acme("account", "adapter", "--help").stdout.split())
    both = ["--secret", "access_token=@token", "--secret", "refresh_token=@token"]
    acme("account", "adapter", "acme", "fake", *both)
    acme("account", "adapter", "acme", "fake", "--secret", "refresh_token=")
    assert acme.json("account", "show", "acme")["connection"]["secrets"] == ["access_token"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--set", "access_token=hunter2"], "--secret access_token=@FILE"),
        (["--secret", "access_token=hunter2"], "stay in the shell's history"),
        (["--secret", "access_token=@none"], "none cannot be read: No such file"),
        (["--secret", "access_token=@~nobody-known/t"], "~nobody-known/t cannot be read: No such"),
        (["--secret", "access_token=@/dev/zero"], "/dev/zero cannot be read: it is too long"),
        (["--secret", "access_token=@empty"], "the value is empty"),
        (["--secret", "access_token=-", "--secret", "refresh_token=-"], "only one secret"),
        (["--secret", "access_token=@token", "--secret", "access_token=-"], "given twice"),
        (["--secret", "hunter2"], "give name=value"),
    ],
)
def test_secrets_that_would_show_are_refused_with_the_remedy(acme, tmp_path, args, words):
    (tmp_path / "empty").write_text("\n")
    refused = acme("account", "adapter", "acme", "fake", *args, code=2).stderr
    assert words in refused
    assert "hunter2" not in refused
    assert acme.json("account", "show", "acme")["adapter"] == "local"


def test_adapters_lists_them_and_says_which_is_broken(crmhub):
    listed = crmhub("adapters", code=1).stdout
    assert "local" in listed
    assert "cannot be loaded: ModuleNotFoundError" in listed
    by_name = {one["name"]: one for one in crmhub.json("adapters", code=1)}
    assert by_name["fake"]["title"] == "Fake CRM"
    assert by_name["fake"]["features"] == ["check"]
    assert by_name["broken"]["error"]


def test_an_adapter_tells_which_kinds_it_creates(crmhub):
    shown = crmhub("adapters", "fake").stdout
    assert "contacts, deals, tickets (with the setting project)" in " ".join(shown.split())


def test_doctor_names_accounts_whose_crm_cannot_work(acme):
    acme("account", "adapter", "acme", "fake", "--secret", "access_token=@token")
    (acme.root / "var" / "encryption_keys").unlink()
    found = {one["name"]: one for one in acme.json("doctor", code=1)["checks"]}
    assert found["adapter broken"]["state"] == "fail"
    assert found["account acme"]["state"] == "fail"
    assert "Set the value again" in found["account acme"]["message"]
