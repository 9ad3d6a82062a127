"""crmhub account field-map: what an account's CRM calls things, shown, set and tried."""

from __future__ import annotations

import json

import pytest

# The operations behind the commands are tested on each database.
pytestmark = pytest.mark.databases("sqlite")

SHOW = ("account", "field-map", "acme")
MAP = {
    "contacts": {"topic": {"to": "jobtitle", "values": {"Sales": "sales"}}},
    "deals": {"dealname": {"constant": "From the chat", "set": "empty"}},
}
RULES = {
    "contacts": MAP["contacts"],
    "deals": {"dealname": {"to": "dealname", "constant": "From the chat", "set": "empty"}},
    "tickets": {},
}


def test_a_map_is_set_from_a_file_or_standard_input_and_shown(acme):
    assert acme(*SHOW).stdout.startswith("The field map is empty")
    (acme.root / "map.json").write_text(json.dumps(MAP))
    told = acme(*SHOW, "--file", "map.json")
    assert told.stdout == "The field map of acme is set.\n"
    assert "Note: contacts.topic: the account's contacts have no such property" in told.stderr
    assert acme.json(*SHOW) == RULES
    shown = acme(*SHOW).stdout
    assert "contacts  topic     jobtitle  Sales=sales  -" in shown
    assert "From the chat (if empty)" in shown
    assert "\nField map     2 rules\n" in acme("account", "show", "acme").stdout
    acme(*SHOW, "--file", "-", stdin="{}")
    assert acme.json(*SHOW)["contacts"] == {}
    assert [one["object"] for one in acme.json("audit", "list")] == ["fieldMap"] * 2 + ["account"]


def test_a_map_that_does_not_fit_is_not_saved_unless_nobody_is_asked(acme):
    wrong = '{"contacts": {"topic": "jobtitel"}}'
    said = acme(*SHOW, "--file", "-", stdin=wrong, code=1).stderr
    assert "did you mean jobtitle?" in said
    assert acme.json(*SHOW)["contacts"] == {}
    acme(*SHOW, "--file", "-", "--no-check", stdin=wrong)
    assert acme.json(*SHOW)["contacts"] == {"topic": {"to": "jobtitel"}}
    told = acme("account", "check", "acme", code=1).stderr
    assert "local: field map: contacts.topic.to: contacts have no property jobtitel" in told


def test_a_preview_sends_and_saves_nothing(acme):
    (acme.root / "map.json").write_text(json.dumps(MAP))
    sample = ("--preview", "setProperties", "--sample", "topic=Sales", "--sample", "new=1")
    sample = (*sample, "--sample", "lifecyclestage=nobody")
    told = acme(*SHOW, "--file", "map.json", *sample).stdout
    assert ["jobtitle", "sales", "topic", "Sales", "bot"] in [
        line.split() for line in told.splitlines()
    ]
    assert 'Refused: lifecyclestage: "nobody" is not among the options; send' in told
    assert "Refused: new" not in told, "the hub's own records define it"
    assert acme.json(*SHOW)["contacts"] == {}
    previewed = acme.json(*SHOW, "--file", "map.json", *sample)
    assert [one["name"] for one in previewed["sent"]] == ["jobtitle", "new", "lifecyclestage"]
    said = acme(*SHOW, "--preview", "createLead", code=1).stderr
    assert "No bot has called createLead yet" in said


@pytest.mark.parametrize(
    ("options", "stdin", "words"),
    [
        (["--file", "-"], "{", "--file: it is not JSON in UTF-8"),
        (["--file", "-"], "[" * 100_000, "--file: it is not JSON in UTF-8"),
        (["--file", "nowhere.json"], None, "--file: nowhere.json cannot be read"),
        (["--sample", "a=b"], None, "--sample needs --preview"),
        (["--no-check"], None, "--no-check needs --file"),
    ],
)
def test_misuse_is_told(acme, options, stdin, words):
    assert words in acme(*SHOW, *options, stdin=stdin, code=2).stderr
