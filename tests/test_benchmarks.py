"""The benchmarks that nobody runs every day still run."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.engine import make_url

from benchmarks import placement
from benchmarks.bots import Told
from benchmarks.floor import cases
from benchmarks.identity_checks import Crowd, Findings, Played, compare
from benchmarks.identity_oracle import Contact, Expected, Lead, Oracle, SetProperties
from benchmarks.identity_scenes import ACCOUNTS, KINDS, Scene, scenes
from benchmarks.mutant_runs import FOLDER, HANGS, function_at
from benchmarks.mutants import defects
from tests.databases import POSTGRES
from tests.depth import thorough

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


@thorough
def test_the_hub_and_a_schema_made_by_hand_find_the_same(postgresql_url: str) -> None:
    size = ["--records", "600", "--others", "50", "--accounts", "2"]
    short = ["--rounds", "1", "--http-rounds", "1", "--http-seconds", "0.1"]
    lines = _printed("million", *size, *short, "--workers", "1", "--connections", "2")
    for case in cases():
        of_case = [line for line in lines if line.startswith((f"{case.name}  ", f"{case.name}, "))]
        # Its total, and its pages under four sorts.
        assert len(of_case) == 1 + 4, case.name
    assert any(line.startswith("memory of the server processes") for line in lines)


@thorough
def test_agents_do_their_tasks_and_answer_nothing_false() -> None:
    lines = _printed("agent_tasks", "--sqlite")
    assert len([line for line in lines if "none false" in line]) == 3


@thorough
def test_growth_is_told_for_each_size(postgresql_url: str) -> None:
    heads, *rows = _printed("growth", "--sizes", "200,400", "--rounds", "5")
    assert heads.split()[-2:] == ["200", "400"]
    assert len(rows) == 3


@thorough
def test_each_total_and_page_on_sqlite_is_told() -> None:
    lines = _printed("sqlite", "--records", "1000", "--rounds", "1")
    for case in cases():
        # Its total and pages under four sorts.
        assert len([line for line in lines if line.startswith(f"{case.name}, ")]) == 4, case.name
    assert lines[-1].startswith("over (totals: 60 ms, pages: 5 ms): ")


@thorough
def test_what_a_request_costs_is_told_by_layers(postgresql_url: str) -> None:
    lines = _printed("layers", "--records", "1000", "--rounds", "1", "--requests", "3")
    heads, *rows = lines
    assert heads.split()[:2] == ["us", "calls"]
    assert len(rows) == 5 * 2, lines


@thorough
def test_leads_of_a_burst_are_accepted_while_the_crm_is_unavailable() -> None:
    [line] = _printed("burst", "--sqlite", "--bots", "4", "--seconds", "1", "--workers", "1")
    assert "leads/s" in line
    assert "{202: " in line


@thorough
def test_what_row_level_security_costs_is_told(postgresql_url: str) -> None:
    lines = _printed("secured", "--records", "1000", "--rounds", "1", "--requests", "3")
    assert [line for line in lines if line.startswith("CONTAINS_TOKEN")]


@pytest.mark.parametrize(
    "where", ["--crm local --sqlite", pytest.param("--crm hubspot", marks=thorough)]
)
def test_every_lead_is_the_right_persons(where: str, postgresql_url: str) -> None:
    lines = _printed("identity", "--people", "20", "--workers", "1", *where.split())
    crm = where.split()[1]
    for kind in KINDS:
        assert kind.crm not in ("", crm) or any(line.startswith(kind.name) for line in lines), kind


@thorough
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


@thorough
def test_writes_that_land_late_make_nothing_twice() -> None:
    late = ["--late", "0.3", "--under-way", "1", "--lost", "40", "--kills", "0"]
    size = ["--leads", "3", "--deals", "2", "--bots", "4", "--threads", "4", "--workers", "1"]
    lines = _printed("late", "--sqlite", *late, *size)
    assert [line.split()[-1] for line in lines[-9:]] == ["0"] * 9


@thorough
def test_a_quiet_account_is_served_while_another_attacks(postgresql_url: str) -> None:
    # Threads that each hash a password at once would need more memory than a process may.
    size = ["--seconds", "0.5", "--workers", "1", "--threads", "6", "--slowest", "60"]
    names = "searches,hung-up,kept,wrong-keys,sign-ins,headers-drip"
    lines = _printed("hostile", *size, "--only", names)
    for name in names.split(","):
        assert any(line.split()[:1] == [name] for line in lines), name


def test_accounts_are_placed_by_the_databases_own_hash(postgresql_url: str) -> None:
    ids = [1, 2, 481516, 2**31 - 1, 2**40 + 7, -1, -(2**40)]
    url = make_url(postgresql_url).set(drivername="postgresql")
    with psycopg.connect(url.render_as_string(hide_password=False)) as connection:
        for id in ids:
            found = connection.execute("select hashint8(%s::int8)", [id]).fetchone()
            assert found == (placement.account_hash(id),), id


def test_an_isolated_account_moves_to_the_emptiest_worker() -> None:
    sizes = [100.0, *[1.0] * 400]
    nodes = placement.place(sizes, shards=4, workers=2, isolated=1)
    assert sum(map(sum, nodes.workers)) == 500
    assert sorted(nodes.workers, key=sum)[1].count(100) == 1
    assert nodes.rebalance() > 0
    assert nodes.largest_worker <= 500 / 2 * 1.1


@pytest.mark.parametrize("skew", ["zipf:1", "lognormal:2"])
def test_the_sizes_of_accounts_are_skewed_and_sum_up(skew: str) -> None:
    sizes = placement.draw(200, 1e6, skew, seed=1)
    assert sum(sizes) == pytest.approx(1e6)
    assert max(sizes) > 10 * 1e6 / 200
    assert sizes == placement.draw(200, 1e6, skew, seed=1) != placement.draw(200, 1e6, skew, seed=2)


def test_the_placement_of_each_number_of_shards_and_workers_is_printed() -> None:
    lines = _printed("placement", "--accounts", "200", "--draws", "2", "--isolate", "0,3")
    assert lines[0].endswith("sizes zipf:1, seeds 1 to 2")
    # 32 and 128 shards on 2, 4 and 8 workers.
    assert len([line for line in lines if line.split()[0] in ("32", "128")]) == 12


@thorough
def test_the_bytes_of_a_contact_are_printed_by_table(postgresql_url: str) -> None:
    lines = _printed("size", "--records", "300")
    assert lines[0].startswith("300 contacts, ")
    for table in ("records", "ix_text", "ix_num", "ix_date", "unique_value", "all tables"):
        assert any(line.startswith(table) for line in lines), table
    totals = [line for line in lines if line.startswith(("city, ", "score, "))]
    assert len(totals) == 3
    assert not any(line.endswith(" 0.0 B") for line in totals), totals


@thorough
def test_the_processor_time_of_each_call_is_printed(postgresql_url: str) -> None:
    small = ["--records", "300", "--seconds", "0.2", "--workers", "1", "--connections", "2"]
    lines = _printed("capacity", *small, "--direct")
    for call in ("list", "get by id", "search, 1 match", "create", "createLead"):
        rows = [line.split() for line in lines if line.startswith(call)]
        assert rows, call
        assert all(float(words[-5]) > 0 for words in rows), call
    assert len([line for line in lines if line.startswith("  memory of ")]) == 2


# --- The defects of `benchmarks.mutants` --------------------------------------------------------


def test_each_planted_defect_is_another_program() -> None:
    path = ROOT / "adapters" / "tryton.py"
    source = path.read_text()
    sound = ast.dump(ast.parse(source))
    planted = [defect.planted_in(source) for defect in defects(path)]
    assert len(planted) > 100
    assert all(ast.dump(ast.parse(one)) != sound for one in planted)


def test_no_defect_is_planted_in_words_for_people(tmp_path: Path) -> None:
    path = tmp_path / "adapter.py"
    path.write_text('Setting("token", help="Of a user" if is_user == 1 else "Of an app")\n')
    assert not [*defects(path)]


def test_a_defect_is_of_the_function_around_it_from_its_first_decorator(tmp_path: Path) -> None:
    path = tmp_path / "adapter.py"
    path.write_text(
        "same = a == b\nclass Adapter:\n    @cached\n    def find(self):\n"
        "        return [one for one in c if one == d]\n"
    )
    functions = {defect.line: defect.function for defect in defects(path)}
    assert functions == {1: "", 5: function_at(path, 3)}


def _run_of_tests(folder: Path, source: str) -> str:
    """Run tests as `benchmarks.mutants` does, and return what pytest printed."""
    (folder / "adapters").mkdir(exist_ok=True)
    (folder / "adapters" / "test_one.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "-p"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), FOLDER: str(folder)}
    run = subprocess.run(
        [*command, "benchmarks.mutant_runs", "-c", "/dev/null", "--rootdir", str(folder)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


def test_tests_that_call_a_function_run_first_and_one_that_hangs_fails(tmp_path: Path) -> None:
    source = "def call():\n    pass\n\n\ndef test_a():\n    pass\n\n\ndef test_b():\n    call()\n"
    _run_of_tests(tmp_path, source)
    [calls] = [json.loads(file.read_text()) for file in tmp_path.glob("*.json")]
    near = [test for test, run in calls.items() if "adapters/test_one.py:1" in run["calls"]]
    assert near == ["adapters/test_one.py::test_b"]
    (tmp_path / "plan").write_text(json.dumps({"first": near, "limit_s": 0.2}))
    said = _run_of_tests(tmp_path, source.replace("call()\n", "while True: pass\n"))
    assert HANGS in said
    assert said.index("::test_b FAILED") < said.index("::test_a ")
