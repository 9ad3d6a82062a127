"""crmhub account apply and export: accounts as a file declares them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from crmhub.accounts.directory import Directory
from crmhub.accounts.plans import BUILT_IN
from crmhub.adapter.oauth import KEPT
from crmhub.crm.stored_connections import open_credentials
from crmhub.database.connection import Database
from crmhub.hub import Hub
from crmhub.settings import Settings
from tests.cli.conftest import credentials
from tests.operators.traces import left

EXAMPLE = Path(__file__).parents[2] / "config" / "accounts.example.toml"
PAGE = Path(__file__).parents[2] / "docs" / "operator" / "accounts-file.md"
APPLY = ("account", "apply", "accounts.toml")
SECRET = "pat-planted-in-the-environment"
ACME = """
[acme]
name = "Acme GmbH"
[acme.switches]
region = "DE"
[acme.connection]
adapter = "hubspot"
[acme.connection.settings]
base_url = "https://eu.crm.example"
[acme.connection.secrets]
access_token = { env = "ACME_TOKEN" }
"""


@pytest.fixture
def declare(crmhub):
    """Write accounts.toml into the installation and return the command line."""
    crmhub.env["ACME_TOKEN"] = crmhub.env["ACME_HUBSPOT_TOKEN"] = SECRET

    def write(text):
        (crmhub.root / "accounts.toml").write_text(text, encoding="utf-8")
        return crmhub

    return write


def applied(crmhub):
    return crmhub.json(*APPLY, "--yes")["accounts"]


def test_the_example_of_the_page_is_applied(declare):
    [text] = re.findall(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    crmhub = declare(text)
    [acme] = applied(crmhub)
    assert (acme["clientId"], acme["opened"]) == ("acme", True)
    assert credentials(crmhub) == {"access_token": SECRET}
    stages = crmhub.json("account", "field-map", "acme")["deals"]["dealstage"]["values"]
    assert stages == {"won": "closedwon"}


def test_the_team_of_the_page_is_applied(declare):
    page = PAGE.with_name("teams.md")
    [text] = re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    crmhub = declare(text)
    assert [one["clientId"] for one in applied(crmhub)] == ["acme"]
    team = crmhub.json("team", "show", "acme", "Sales")
    assert [(one["ownerId"], one["weight"], one["hours"]) for one in team["members"]] == [
        ("17", 3, "mon-fri 09:00-17:00"),
        ("21", 1, ""),
    ]
    assert (team["fallbackId"], team["daysOff"]) == ("3", "2026-12-25")
    assert applied(crmhub) == []


def test_the_example_opens_its_accounts_and_finds_nothing_to_do_afterwards(declare, own_url):
    crmhub = declare(EXAMPLE.read_text(encoding="utf-8"))
    acme, field_sales = applied(crmhub)
    assert (acme["clientId"], acme["opened"]) == ("acme", True)
    database = Database(own_url)
    directory = Directory(database, BUILT_IN)
    caller = directory.by_api_key(field_sales["apiKey"])
    assert caller.account.name == "Field sales"
    directory.close(), database.close()
    shown = crmhub.json("account", "show", "acme")
    assert (shown["name"], shown["plan"], shown["adapter"]) == ("Acme GmbH", "free", "hubspot")
    assert shown["switches"]["rotation"] == "weighted:5,3,1+sticky"
    assert shown["connection"]["id"] == 1
    assert credentials(crmhub) == {"access_token": SECRET}
    entries = len(crmhub.json("audit", "list"))
    assert applied(crmhub) == []
    assert crmhub(*APPLY).stdout == "No differences.\n"
    assert len(crmhub.json("audit", "list")) == entries


def test_what_differs_is_shown_asked_and_applied(declare):
    crmhub = declare(ACME)
    crmhub("account", "create", "Acme")
    asked = crmhub(*APPLY, stdin="y\n").stdout
    assert asked.startswith(
        "acme: changes\n"
        "  name: Acme -> Acme GmbH\n"
        '  region: "" -> DE\n'
        "  connection.adapter: local -> hubspot\n"
        "  connection.settings.base_url: not set -> https://eu.crm.example\n"
        "  connection.secrets.access_token: not set -> set\n"
        "Apply this? [y/N]: "
    )
    assert asked.endswith("Applied.\n")
    assert SECRET not in asked
    shown = crmhub.json("account", "show", "acme")
    assert (shown["name"], shown["adapter"]) == ("Acme GmbH", "hubspot")


@pytest.mark.parametrize(("options", "code"), [(["--dry-run"], 0), ([], 1)])
def test_what_is_not_agreed_to_is_not_done(declare, options, code):
    crmhub = declare(ACME + "[other]\n")
    made = crmhub.json("account", "create", "Acme")
    told = crmhub(*APPLY, *options, stdin="n\n", code=code).stdout
    assert "acme: changes" in told
    assert "other: is opened" in told
    assert [one["clientId"] for one in crmhub.json("account", "list")] == ["acme"]
    assert crmhub.json("account", "show", "acme")["portalId"] == made["portalId"]
    assert crmhub.json("account", "show", "acme")["adapter"] == "local"
    assert [entry["verb"] for entry in crmhub.json("audit", "list")] == ["open"]


def test_what_is_not_named_stays(declare):
    crmhub = declare(ACME)
    applied(crmhub)
    crmhub("account", "set", "acme", "strict=true", "plan=free")
    declare('[acme]\nname = "Acme"\n')
    (changed,) = applied(crmhub)
    assert changed["differences"] == [{"name": "name", "before": "Acme GmbH", "after": "Acme"}]
    shown = crmhub.json("account", "show", "acme")
    assert (shown["plan"], shown["switches"]["strict"], shown["adapter"]) == (
        "free",
        True,
        "hubspot",
    )


def test_answers_and_origins_are_declared_once(declare):
    text = '[acme.switches]\nanswer_format = "chatfuel"\nallowed_origins = "https://A.example"\n'
    crmhub = declare(text)
    crmhub("account", "create", "Acme")
    assert len(applied(crmhub)) == 1
    switches = crmhub.json("account", "show", "acme")["switches"]
    assert (switches["answer_format"], switches["allowed_origins"]) == (
        "chatfuel",
        "https://a.example",
    )
    assert applied(crmhub) == []
    exported = crmhub("account", "export").stdout
    assert 'allowed_origins = "https://a.example"' in exported


def test_settings_are_all_there_are_and_an_empty_secret_goes(declare):
    crmhub = declare(ACME)
    applied(crmhub)
    declare('[acme.connection]\nadapter = "hubspot"\n')
    (changed,) = applied(crmhub)
    assert [each["name"] for each in changed["differences"]] == ["connection.settings.base_url"]
    assert credentials(crmhub) == {"access_token": SECRET}
    declare('[acme.connection]\nadapter = "local"\n')
    applied(crmhub)
    shown = crmhub.json("account", "show", "acme")
    assert (shown["connection"]["id"], shown["connection"]["secrets"]) == (2, [])


MAPPED = """
[acme.connection]
adapter = "local"
[acme.connection.field_map.contacts]
topic = "jobtitle"
[acme.connection.field_map.deals]
dealstage = { values = { won = "closedwon" }, constant = "won", set = "empty" }
"""


def test_a_field_map_is_declared_rule_by_rule_and_exported_as_it_was(declare):
    crmhub = declare(MAPPED)
    (opened,) = applied(crmhub)
    assert opened["differences"][-2:] == [
        {
            "name": "connection.field_map.contacts.topic",
            "before": "not set",
            "after": {"to": "jobtitle"},
        },
        {
            "name": "connection.field_map.deals.dealstage",
            "before": "not set",
            "after": {
                "to": "dealstage",
                "values": {"won": "closedwon"},
                "constant": "won",
                "set": "empty",
            },
        },
    ]
    exported = crmhub("account", "export", "acme").stdout
    declare(exported)
    assert applied(crmhub) == []
    # What is not named stays; what is named is all there is.
    declare('[acme.connection]\nadapter = "local"\n')
    assert applied(crmhub) == []
    declare('[acme.connection]\nadapter = "local"\nfield_map = {}\n')
    (changed,) = applied(crmhub)
    assert {one["after"] for one in changed["differences"]} == {"not set"}


def test_a_secret_is_set_anew_when_it_is_another_one_only(declare):
    crmhub = declare(ACME)
    (crmhub.root / "token").write_text("pat-another\n")
    applied(crmhub)
    (crmhub.root / "accounts.toml").write_text(ACME.replace('env = "ACME_TOKEN"', 'file = "token"'))
    (changed,) = applied(crmhub)
    assert changed["differences"] == [
        {"name": "connection.secrets.access_token", "before": "set", "after": "set anew"}
    ]
    assert applied(crmhub) == []
    assert credentials(crmhub) == {"access_token": "pat-another"}


def test_what_the_adapter_keeps_itself_survives(declare):
    oauth = ("client_id", "client_secret", "refresh_token")
    secrets = "\n".join(f'{name} = {{ env = "ACME_TOKEN" }}' for name in oauth)
    crmhub = declare(ACME.replace('access_token = { env = "ACME_TOKEN" }', secrets))
    applied(crmhub)
    hub = Hub.open(Settings.load(crmhub.env, crmhub.root))
    from crmhub.crm.stored_connections import seal_credentials

    account = hub.load_account("acme")
    grown = {**open_credentials(hub.vault, account), KEPT: "4102444800 token"}
    sealed = seal_credentials(hub.vault, account.id, grown)
    hub.database.transact(
        lambda tx: tx.run("update connection set credentials = :it", {"it": sealed})
    )
    hub.close()
    assert applied(crmhub) == []
    declare((crmhub.root / "accounts.toml").read_text().replace("DE", "FR"))
    assert len(applied(crmhub)) == 1
    assert credentials(crmhub)[KEPT] == "4102444800 token"


FAULTS = {
    '[acme.connection]\nadapter = "local"\nfield_map = 1\n': [
        "[acme.connection] field_map: fieldMap: must be an object"
    ],
    "[acme.connection]\nadapter = 'local'\nfield_map.contacts.email = 'b'\n": [
        "[acme.connection] field_map: contacts.email: email identifies contacts"
    ],
    'x = 1\n[acme]\ncolour = "red"': [
        "x stands outside a table",
        "[acme] colour: there is no such",
    ],
    "[acme]\nname = 1\ndisabled = 0": [
        '[acme] name: must be a text in ""',
        "[acme] disabled: must",
    ],
    "[Acme]": ["[Acme] 'Acme' is not a client id"],
    '[acme]\nplan = "gold"\n[other]\nplan = "tin"': [
        "[acme] plan: there is no plan 'gold'",
        "[other] plan: there is no plan 'tin'",
    ],
    '[acme.switches]\nstrict = "perhaps"\nspeed = 1': [
        "[acme] switches.strict: 'perhaps' is neither",
        "switches.speed: there is no such switch",
    ],
    '[acme.switches]\nplan = "free"\nregion = []\nportal_alias = 1': [
        "[acme.switches] plan: is no switch",
        "[acme.switches] region: must be",
        "[acme.switches] portal_alias: must be",
    ],
    "[acme.connection]\nsettings = {}": ["[acme.connection] adapter: is missing"],
    '[acme.connection]\nadapter = "nocrm"': ["[acme] adapter: No adapter named 'nocrm'"],
    '[acme.connection]\nadapter = "hubspot"': ["[acme] ", "Enter an access token"],
    '[acme.connection]\nadapter = "local"\nsettings = { colour = "red" }': ["colour: local has no"],
    '[acme.connection]\nadapter = "local"\nsettings = { size = 1.5 }': [
        "[acme.connection.settings] size: must be a text"
    ],
    ACME.replace('{ env = "ACME_TOKEN" }', '"hunter2-in-clear"'): [
        "[acme.connection.secrets] access_token: a secret does not belong into this file"
    ],
    ACME.replace("ACME_TOKEN", "NO_SUCH_VARIABLE"): [
        "[acme.connection.secrets] access_token: the environment variable NO_SUCH_VARIABLE is not"
    ],
    ACME.replace('env = "ACME_TOKEN"', 'file = "none"'): ["access_token: none cannot be read: No"],
    ACME.replace('env = "ACME_TOKEN"', 'file = "~nobody-known/t"'): [
        "access_token: ~nobody-known/t cannot be read: No such file"
    ],
    ACME.replace('env = "ACME_TOKEN"', 'file = "empty"'): ["access_token: empty is empty"],
    ACME.replace('env = "ACME_TOKEN"', 'file = "/dev/zero"'): [
        "access_token: /dev/zero cannot be read: it is too long for a secret"
    ],
    ACME.replace('env = "ACME_TOKEN"', 'vault = "x"'): ["does not say where the secret is"],
    ACME.replace('env = "ACME_TOKEN"', "env = 1"): ["does not say where the secret is"],
    "[acme": ["cannot be read as TOML"],
    f"[acme]\nname = {'[' * 2000}": ["cannot be read as TOML"],
}


def test_every_fault_names_file_table_and_key_and_nothing_is_done(declare):
    for text, found in FAULTS.items():
        crmhub = declare(f'[aaa-first]\nname = "First"\n{text}' if text[0] == "[" else text)
        (crmhub.root / "empty").write_text("\n")
        told = crmhub(*APPLY, "--yes", code=2)
        for words in found:
            assert words in told.stderr, text
        assert all(line.startswith("crmhub: accounts.toml: ") for line in told.stderr.splitlines())
        assert "hunter2" not in told.stderr + told.stdout
    assert crmhub.json("account", "list") == []


def test_json_asks_nothing(declare):
    assert "--yes or --dry-run" in declare(ACME)(*APPLY, "--json", code=2).stderr
    assert declare(ACME).json(*APPLY, "--dry-run")["applied"] is False


def test_an_export_applied_elsewhere_makes_the_same_accounts(declare):
    crmhub = declare(EXAMPLE.read_text(encoding="utf-8"))
    applied(crmhub)
    crmhub("account", "set", "field-sales", 'name=Field "sales" \\ Ä', "strict=true")
    crmhub("account", "disable", "field-sales")
    exported = crmhub("account", "export").stdout
    assert SECRET not in exported
    tables = tomllib.loads(exported)
    assert tables["acme"]["connection"]["secrets"] == {
        "access_token": {"env": "SECRET_ACME_ACCESS_TOKEN"}
    }
    assert list(tables) == ["acme", "field-sales"]
    assert list(tomllib.loads(crmhub("account", "export", "acme").stdout)) == ["acme"]
    before = [_comparable(crmhub.json("account", "show", name)) for name in tables]

    crmhub.env["SECRET_ACME_ACCESS_TOKEN"] = SECRET
    declare(exported)
    assert applied(crmhub) == []
    for name in tables:
        crmhub("account", "set", name, "strict=false", "region=US", "name=Else", "plan=default")
    declare(exported.replace("[acme", "[copy").replace("12345678", "87654321"))
    assert {one["clientId"] for one in applied(crmhub)} == {"copy", "field-sales"}
    after = [_comparable(crmhub.json("account", "show", name)) for name in ("copy", "field-sales")]
    before[0] |= {"clientId": "copy"}
    before[0]["switches"]["portal_alias"] = "87654321"
    assert after == before


def _comparable(shown):
    issued = ("createdAt", "generatedId", "portalId", "oldIds")
    return {name: value for name, value in shown.items() if name not in issued}


def test_names_of_variables_are_each_of_one_secret(declare):
    crmhub = declare(ACME + ACME.replace("acme", "a-b") + ACME.replace("acme", "a_b"))
    applied(crmhub)
    tables = tomllib.loads(crmhub("account", "export").stdout)
    names = {table["connection"]["secrets"]["access_token"]["env"] for table in tables.values()}
    assert len(names) == 3


def test_no_secret_of_a_file_is_in_the_database(declare):
    crmhub = declare(ACME)
    (opened,) = applied(crmhub)
    hub = Hub.open(Settings.load(crmhub.env, crmhub.root))
    assert left(hub, [SECRET, opened["apiKey"], opened["webhookSecret"]]) == []
    hub.close()
