"""The benchmarks that nobody runs every day still run."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.bots import Told
from benchmarks.floor import cases
from benchmarks.identity_checks import Crowd, Findings, Played, compare
from benchmarks.identity_oracle import Contact, Expected, Lead, Oracle, SetProperties
from benchmarks.identity_scenes import ACCOUNTS, KINDS, Scene, scenes
from tests.databases import POSTGRES

ROOT = Path(__file__).parents[1]


def _printed(module: str, *options: str) -> list[str]:
    run = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *options],
        cwd=ROOT,
        env={**os.environ, "CRMHUB_TEST_POSTGRES": POSTGRES},
        capture_output=True,
        text=True,
    )
    # Short, and the reason last: where a report is cut, that is what must be left.
    assert run.returncode == 0, f"…{run.stdout[-500:]}\n{run.stderr[-3000:]}"
    return run.stdout.splitlines()


def test_the_hub_and_a_schema_made_by_hand_find_the_same(postgresql_url: str) -> None:
    size = ["--records", "600", "--others", "50", "--accounts", "2"]
    short = ["--rounds", "1", "--http-rounds", "1", "--http-seconds", "0.1"]
    lines = _printed("million", *size, *short, "--workers", "1", "--connections", "2")
    for case in cases():
        of_case = [line for line in lines if line.startswith((f"{case.name}  ", f"{case.name}, "))]
        # Its total, and its pages under four sorts.
        assert len(of_case) == 1 + 4, case.name
    assert any(line.startswith("memory of the server processes") for line in lines)


def test_growth_is_told_for_each_size(postgresql_url: str) -> None:
    heads, *rows = _printed("growth", "--sizes", "200,400", "--rounds", "5")
    assert heads.split()[-2:] == ["200", "400"]
    assert len(rows) == 3


def test_each_total_and_page_on_sqlite_is_told() -> None:
    lines = _printed("sqlite", "--records", "1000", "--rounds", "1")
    for case in cases():
        # Its total and pages under four sorts.
        assert len([line for line in lines if line.startswith(f"{case.name}, ")]) == 4, case.name
    assert lines[-1].startswith("over (totals: 60 ms, pages: 5 ms): ")


def test_what_a_request_costs_is_told_by_layers(postgresql_url: str) -> None:
    lines = _printed("layers", "--records", "1000", "--rounds", "1", "--requests", "3")
    heads, *rows = lines
    assert heads.split()[:2] == ["us", "calls"]
    assert len(rows) == 5 * 2, lines


def test_what_row_level_security_costs_is_told(postgresql_url: str) -> None:
    lines = _printed("secured", "--records", "1000", "--rounds", "1", "--requests", "3")
    assert [line for line in lines if line.startswith("CONTAINS_TOKEN")]


@pytest.mark.parametrize("where", ["--crm local --sqlite", "--crm hubspot"])
def test_every_lead_is_the_right_persons(where: str, postgresql_url: str) -> None:
    lines = _printed("identity", "--people", "40", *where.split())
    crm = where.split()[1]
    for kind in KINDS:
        assert kind.crm not in ("", crm) or any(line.startswith(kind.name) for line in lines), kind


def test_failed_calls_are_decided_and_nothing_older_is_written() -> None:
    size = ["--leads", "3", "--deals", "1", "--kills", "0", "--failing", "1"]
    small = ["--workers", "1", "--threads", "4", "--bots", "4"]
    told = _printed("faults", "--sqlite", *size, *small)[0]
    assert told.endswith("calls that fail, 0 processes killed")


# --- The oracle of `benchmarks.identity` --------------------------------------------------------


class _PhoneFirst(Oracle):
    """A hub that takes whoever has the phone for the person, as many do."""

    def _contact_of(self, call: Lead, phone: str) -> Contact:
        return next(iter(self._with_phone(phone)), None) or super()._contact_of(call, phone)

    def _take_email(self, contact: Contact, call: Lead) -> bool:
        contact.email = call.email or contact.email
        return True


class _Silent(Oracle):
    """A hub that stores everything right and says nothing of it."""

    def expect(self, call: Any) -> Expected:
        found = super().expect(call)
        return replace(found, refused=frozenset(), shares_phone_with=())


def _findings(hub: type[Oracle]) -> Findings:
    """Return what is found of a hub that does in every scene what this oracle says."""
    together = Findings()
    made = scenes(300, "hubspot", seed=1)
    for scene in made:
        played, contacts = _played(scene, hub)
        found = compare(played, Crowd([played], contacts), pairs=())
        together.counts += found.counts
        together.remarks += found.remarks
    return together


def _played(scene: Scene, hub: type[Oracle]) -> tuple[Played, dict[str, dict[str, str]]]:
    switches = ACCOUNTS[scene.kind.account]
    simulated = hub("lead_requires" not in switches, "phone_identifies" in switches)
    played = Played(scene)
    for call in scene.calls:
        expected = simulated.expect(call)
        of_bot = isinstance(call, Lead | SetProperties) or expected.errors
        played.answers.append(_answer(expected) if of_bot else _id(expected.contact))
    for call in scene.calls:
        if isinstance(call, Lead | SetProperties):
            contact = simulated.conversations.get(call.token)
            properties = contact.properties if contact else {}
            body = {"properties": properties}
            played.read[call.token] = Told("", 200 if contact else 404, body, {}, 0.0, 0.0)
    return played, {_id(one): dict(one.properties) for one in simulated.contacts}


def _answer(expected: Expected) -> Told:
    message = f"{expected.errors} {expected.value}" if expected.errors else ""
    if expected.shares_phone_with:
        message = "another contact has this phone, too"
    body = {"contactId": _id(expected.contact), "message": message}
    body["refused"] = ",".join(expected.refused)
    return Told("", 422 if expected.errors else 200, body, {}, 0.0, 0.0)


def _id(contact: Contact | None) -> str:
    return str(id(contact)) if contact else ""


def test_a_hub_that_keeps_the_rules_has_no_faults() -> None:
    found = _findings(Oracle)
    assert found.remarks == []
    assert found.counts["clashes"] == found.counts["in answer"] > 50


def test_a_hub_that_goes_by_the_phone_merges_and_overwrites() -> None:
    found = _findings(_PhoneFirst).counts
    assert min(found["merged"], found["overwritten"], found["shown"], found["silent"]) > 0


def test_a_hub_that_tells_nothing_is_silent_in_every_clash_it_accepts() -> None:
    found = _findings(_Silent).counts
    assert found["silent"] == found["clashes"] - found["in answer"] > 0
    assert found["merged"] == found["overwritten"] == found["lost"] == 0


def test_writes_that_land_late_make_nothing_twice() -> None:
    late = ["--late", "0.3", "--under-way", "1", "--lost", "40", "--kills", "0"]
    size = ["--leads", "3", "--deals", "2", "--bots", "4", "--threads", "4", "--workers", "1"]
    lines = _printed("late", "--sqlite", *late, *size)
    assert [line.split()[-1] for line in lines[-9:]] == ["0"] * 9


def test_a_quiet_account_is_served_while_another_attacks(postgresql_url: str) -> None:
    # Threads that each hash a password at once would need more memory than a process may.
    size = ["--seconds", "0.5", "--workers", "1", "--threads", "6", "--slowest", "60"]
    names = "searches,hung-up,kept,wrong-keys,sign-ins,headers-drip"
    lines = _printed("hostile", *size, "--only", names)
    for name in names.split(","):
        assert any(line.split()[:1] == [name] for line in lines), name
