"""crmhub import and export: each row once, also when the process is killed; nothing runs."""

from __future__ import annotations

import csv
import os
import signal
import stat
import subprocess
import time
from io import StringIO
from pathlib import Path

import pytest

from crmhub.errors import Conflict
from crmhub.operators.files import import_jobs
from crmhub.properties.definitions import Property
from crmhub.properties.kinds import CONTACTS, DEALS
from crmhub.records import definitions, timeline
from crmhub.records.models import NewRecord
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.records.timeline import Added
from tests.cli.conftest import environment
from tests.preparations import import_in_small_steps
from tests.processes import Forked

_TITLES = ["email", "firstname", "city"]


def _write(crmhub, rows, titles=_TITLES, name="people.csv") -> None:
    with (crmhub.root / name).open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([titles, *rows])


def _read(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def _exported(crmhub, *options: str) -> list[dict[str, str]]:
    return list(
        csv.DictReader(StringIO(crmhub("export", "acme", "contacts", "-", *options).stdout))
    )


def _emails(crmhub) -> list[str]:
    return sorted(row["email"] for row in _exported(crmhub))


def test_a_title_with_decomposed_accents_is_the_label(acme, acme_hub):
    account = acme_hub.directory.by_client_id("acme")
    region = Property(0, name="region", label="Région", type="string")
    definitions.define(acme_hub.records, account, CONTACTS, region)
    _write(acme, [["ada@example.com", "Bretagne"]], titles=["email", "Re\u0301gion"])
    acme("import", "acme", "contacts", "people.csv")

    assert [row["region"] for row in _exported(acme)] == ["Bretagne"]


def test_a_row_with_an_error_of_a_spreadsheet_is_rejected_and_a_blank_row_is_skipped(acme):
    _write(
        acme,
        [
            ["mailto:ADA@example.com", "Ada", "London"],
            ["bob@example.com", "#N/A", "Paris"],
            [" ", "", "  "],
            ["Carl <carl@example.com>", "Carl", ""],
        ],
    )
    said = acme("import", "acme", "contacts", "people.csv", code=1).output

    assert "2 created, 0 updated." in said
    assert _emails(acme) == ["ada@example.com", "carl@example.com"]
    [(*_, line, reason)] = _read(acme.root / "people.refused.csv")[1:]
    assert (line, reason) == (
        "3",
        "firstname: #N/A is an error of a spreadsheet; correct the cell there",
    )


def test_a_cell_of_blanks_changes_nothing(acme):
    _write(acme, [["ada@example.com", "Ada", "London"]])
    acme("import", "acme", "contacts", "people.csv")
    titles = ["email", "firstname", "city", "phone"]
    _write(acme, [["ada@example.com", "   ", "\u00a0", "  "]], titles=titles)
    said = acme("import", "acme", "contacts", "people.csv", "--by", "email").output
    assert "0 created, 1 updated." in said
    [row] = _exported(acme)
    assert (row["firstname"], row["city"]) == ("Ada", "London")


def test_rows_become_records_and_what_cannot_be_goes_to_a_file(acme):
    _write(
        acme,
        [
            ["ADA@example.com", "Ada", "London"],
            ["no address", "Bob", "Paris"],
            ["", "", ""],
            ["ada@example.com", "Ada again", ""],
            ["eve@example.com", "Eve", "Oslo", "Norway"],
            ["no address"],
            ["carl@example.com", "Carl"],
        ],
    )
    told = acme("import", "acme", "contacts", "people.csv", code=1).output
    assert "2 created, 0 updated.\n4 refused, with their reasons in people.refused.csv." in told
    assert _emails(acme) == ["ada@example.com", "carl@example.com"]
    titles, *refused = _read(acme.root / "people.refused.csv")
    assert titles == [*_TITLES, "crmhub_line", "crmhub_refused"]
    assert [row[-2] for row in refused] == ["3", "5", "6", "7"]
    assert refused[3][:-2] == ["no address", "", ""]
    assert refused[0][-1].startswith('email: "no address" is not an email address')
    assert "has this value already" in refused[1][-1]
    assert refused[2][-1].startswith("it has 4 cells and the header 3")


def test_a_row_with_another_delimiter_is_refused(acme):
    acme.root.joinpath("people.csv").write_text("firstname;city\nAda,Rome\nEve;Oslo\nBob\n")
    told = acme("import", "acme", "contacts", "people.csv", code=1).output
    assert "2 created, 0 updated.\n1 refused" in told
    assert "it has 1 cells and the header 2" in told


def test_cells_that_a_row_leaves_out_clear_nothing(acme):
    _write(acme, [["ada@example.com", "Ada", "London"], ["bob@example.com", "Bob", "Paris"]])
    acme("import", "acme", "contacts", "people.csv")
    _write(acme, [["ada@example.com", "Ann"], ["bob@example.com", "Ben", ""]])
    acme("import", "acme", "contacts", "people.csv", "--by", "email", "--clear")
    found = {(row["firstname"], row["city"]) for row in _exported(acme)}
    assert found == {("Ann", "London"), ("Ben", "")}


def test_a_row_that_makes_a_record_too_long_is_refused_alone(acme):
    longest = "x" * 65_536
    acme.root.joinpath("people.csv").write_text(
        f"firstname,city,state\nAda,{longest},{longest}\nBob,{longest},\n"
    )
    told = acme("import", "acme", "contacts", "people.csv", code=1).output
    assert "1 created, 0 updated.\n1 refused" in told
    _, refused = _read(acme.root / "people.refused.csv")
    assert "131072 are allowed" in refused[-1]


def test_a_corrected_file_of_refused_rows_is_imported_as_it_is(acme):
    _write(acme, [["no address", "Bob", "Paris"]])
    acme("import", "acme", "contacts", "people.csv", code=1)
    refused = acme.root / "people.refused.csv"
    refused.write_text(refused.read_text().replace("no address", "bob@example.com", 1))
    told = acme("import", "acme", "contacts", "people.refused.csv").output
    assert "Skipped columns: crmhub_line, crmhub_refused." in told
    assert _emails(acme) == ["bob@example.com"]


def test_by_a_unique_property_rows_change_whom_they_mean(acme):
    _write(acme, [["ada@example.com", "Ada", "London"]])
    acme("import", "acme", "contacts", "people.csv")
    _write(
        acme,
        [
            ["ada@example.com", "Augusta", ""],
            ["Bob@example.com", "Bob", ""],
            ["bob@example.com", "Robert", "Paris"],
        ],
    )
    done = acme.json("import", "acme", "contacts", "people.csv", "--by", "email")
    assert (done["created"], done["updated"], done["refused"]) == (1, 2, 0)
    found = {row["email"]: (row["firstname"], row["city"]) for row in _exported(acme)}
    assert found == {
        "ada@example.com": ("Augusta", "London"),
        "bob@example.com": ("Robert", "Paris"),
    }
    acme("import", "acme", "contacts", "people.csv", "--by", "email", "--clear", "--again")
    assert {row["city"] for row in _exported(acme)} == {"", "Paris"}


def test_a_new_row_that_lacks_something_is_refused_alone(acme, acme_hub):
    _write(acme, [["ada@example.com", "Ada", "London"]])
    acme("import", "acme", "contacts", "people.csv")
    account = acme_hub.directory.by_client_id("acme")
    code = Property(0, name="code", label="", type="string", required=True)
    definitions.define(acme_hub.records, account, CONTACTS, code)
    _write(acme, [["ada@example.com", "Augusta", ""], ["bob@example.com", "Bob", ""]])
    done = acme.json("import", "acme", "contacts", "people.csv", "--by", "email", code=1)
    assert (done["created"], done["updated"], done["refused"]) == (0, 1, 1)
    assert [row["firstname"] for row in _exported(acme)] == ["Augusta"]


def test_an_export_is_imported_by_id(acme):
    _write(acme, [["ada@example.com", "Ada", "London"], ["bob@example.com", "=1+1", "-"]])
    acme("import", "acme", "contacts", "people.csv")
    acme("export", "acme", "contacts", "out.csv")
    out = acme.root / "out.csv"
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert ",'=1+1," in out.read_text()
    changed = out.read_text().replace("London", "Lyon")
    (acme.root / "in.csv").write_text(changed)
    done = acme.json("import", "acme", "contacts", "in.csv", "--by", "id")
    assert (done["created"], done["updated"], done["refused"]) == (0, 2, 0)
    found = {row["firstname"]: row["city"] for row in _exported(acme, "--raw")}
    assert found == {"Ada": "Lyon", "=1+1": "-"}


def test_an_unknown_id_is_refused_alone(acme):
    _write(acme, [["17", "Ada"], ["", "New"], ["x", "Bob"]], titles=["id", "firstname"])
    done = acme.json("import", "acme", "contacts", "people.csv", "--by", "id", code=1)
    assert (done["created"], done["updated"], done["refused"]) == (1, 0, 2)
    reasons = [row[-1] for row in _read(acme.root / "people.refused.csv")[1:]]
    assert reasons == ["id: there is no contact 17", "id: 'x' is not a record id"]


def test_columns_that_cannot_be_are_named_before_anything_is_stored(acme):
    for titles, options, words in (
        (["email", "Nmae"], (), "column 'Nmae': contacts have no property of this name or label"),
        (
            ["email", "E-mail"],
            ("--column", "E-mail=email"),
            "an earlier column holds email already",
        ),
        (["email"], ("--column", "Mail=email"), "--column Mail: no column has this title"),
        (["email"], ("--by", "city"), "--by: city is not unique"),
        (["firstname"], ("--by", "email"), "--by: no column holds email"),
        (["createdAt"], (), "columns: none of them is a property"),
    ):
        _write(acme, [["a@b.co"] * len(titles)], titles=titles)
        told = acme("import", "acme", "contacts", "people.csv", *options, code=1).stderr
        assert "Nothing was imported: " in told
        assert words in told
    assert _exported(acme) == []


def test_titles_are_names_or_labels_or_what_is_said_of_them(acme):
    _write(acme, [["a@b.co", "Ada", "1", "x"]], titles=["EMAIL", "First Name", "Stadt", "Notes"])
    options = ("--column", "Stadt=city", "--column", "Notes=")
    told = acme("import", "acme", "contacts", "people.csv", *options).output
    assert "Skipped columns: Notes." in told
    [row] = _exported(acme, "--property", "firstname", "--property", "city")
    assert (row["firstname"], row["city"]) == ("Ada", "1")


def test_a_file_is_imported_once(acme):
    _write(acme, [["", "Ada", ""]])
    acme("import", "acme", "contacts", "people.csv")
    told = acme("import", "acme", "contacts", "people.csv", code=1).stderr
    assert "was imported already: 1 created, 0 updated, 0 refused. --again imports it again" in told
    acme("import", "acme", "contacts", "people.csv", "--again")
    assert len(_exported(acme)) == 2


def test_what_cannot_be_imported_again_is_not_forgotten(acme):
    _write(acme, [["", "Ada", ""]])
    acme("import", "acme", "contacts", "people.csv")
    (acme.root / "people.refused.csv").write_text("to be corrected\n")
    told = acme("import", "acme", "contacts", "people.csv", "--again", code=1).stderr
    assert "may contain refused rows of an earlier import" in told
    (acme.root / "people.refused.csv").unlink()
    told = acme("import", "acme", "contacts", "people.csv", code=1).stderr
    assert "was imported already: 1 created" in told


def test_rows_refused_before_are_not_written_over(acme):
    _write(acme, [["no address", "Bob", "Paris"]])
    (acme.root / "people.refused.csv").write_text("to be corrected\n")
    told = acme("import", "acme", "contacts", "people.csv", code=1).stderr
    assert "may contain refused rows of an earlier import" in told
    acme("import", "acme", "contacts", "people.csv", "--refused", "other.csv", code=1)
    assert len(_read(acme.root / "other.csv")) == 2


def test_no_row_is_imported_where_refused_rows_have_no_directory(acme):
    _write(acme, [["ann@x.org", "", ""]])
    refused = ("--refused", "nowhere/rows.csv")
    told = acme("import", "acme", "contacts", "people.csv", *refused, code=2).stderr
    assert "there is no directory nowhere" in told
    assert _emails(acme) == []


def test_a_full_plan_stops_the_import_and_a_larger_one_lets_it_go_on(acme, acme_hub):
    acme("account", "set", "acme", "plan=free")
    _write(acme, [["bad", "", ""], *([f"p{n}@example.com", "", ""] for n in range(1300))])
    told = acme("import", "acme", "contacts", "people.csv", code=1).stderr
    assert "The plan allows 1000 contacts" in told
    account = acme_hub.directory.by_client_id("acme")
    [job] = import_jobs.listed(acme_hub, account)
    assert (job.state, job.tally.refused) == ("stopped", 1)
    with pytest.raises(Conflict, match="Run the same crmhub import again"):
        import_jobs.resume(acme_hub, account, job.id)
    acme("account", "set", "acme", "plan=unlimited")
    done = acme.json("import", "acme", "contacts", "people.csv", code=1)
    assert (done["created"], done["refused"]) == (1300, 1)
    assert len(_emails(acme)) == 1300
    assert [row[-2] for row in _read(acme.root / "people.refused.csv")[1:]] == ["2"]
    assert import_jobs.listed(acme_hub, account) == []


SMALL_STEPS = Forked(import_in_small_steps)
IMPORT = ("import", "acme", "contacts", "people.csv")


def test_a_killed_import_goes_on_and_stores_each_row_once(acme, acme_hub):
    rows = [["bad" if n % 97 == 0 else f"p{n}@example.com", f"N{n}", ""] for n in range(1500)]
    _write(acme, rows)
    settings = {name.removeprefix("CRMHUB_"): value for name, value in acme.env.items()}
    account = acme_hub.directory.by_client_id("acme")
    page = PageRequest(Query(limit=1))
    for _ in range(2):
        stored = acme_hub.records.page(account, CONTACTS, page).total
        running = SMALL_STEPS.start(*IMPORT, cwd=acme.root, env=environment(**settings))
        while running.poll() is None:
            if acme_hub.records.page(account, CONTACTS, page).total > stored:
                running.send_signal(signal.SIGKILL)
            time.sleep(0.01)
        assert running.returncode == -signal.SIGKILL
    done = acme.json("import", "acme", "contacts", "people.csv", code=1)
    assert (done["created"], done["refused"]) == (1484, 16)
    assert len(_emails(acme)) == len(set(_emails(acme))) == 1484
    refused = [row[-2] for row in _read(acme.root / "people.refused.csv")[1:]]
    assert refused == [str(n + 2) for n in range(1500) if n % 97 == 0]


def test_two_that_import_the_same_file_store_each_row_once(acme, acme_hub):
    rows = [["bad" if n % 5 == 0 else "", f"N{n}", ""] for n in range(1500)]
    _write(acme, rows)
    settings = {name.removeprefix("CRMHUB_"): value for name, value in acme.env.items()}
    both = [
        SMALL_STEPS.start(
            *IMPORT, cwd=acme.root, env=environment(**settings), stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    told = [each.communicate()[1] for each in both]
    stopped = [each for each in told if "Another process imports" in each]
    # One that began later may find the other's file, or that all is done.
    later = [each for each in told if "exists already" in each or "imported already" in each]
    assert len(stopped + later) == 1, told
    assert len(_exported(acme)) == 1200
    refused = [row[-2] for row in _read(acme.root / "people.refused.csv")[1:]]
    assert refused == [str(n + 2) for n in range(1500) if n % 5 == 0]


@pytest.mark.parametrize("encoding", ["cp0", "base64", "undefined", "idna"])
def test_an_encoding_that_is_none_is_told(acme, encoding):
    _write(acme, [["a@b.co", "Ada", ""]])
    told = acme("import", "acme", "contacts", "people.csv", "--encoding", encoding, code=2).stderr
    assert f"--encoding: {encoding} is not a known encoding" in told


def test_a_pipe_is_no_file_to_import(acme):
    os.mkfifo(acme.root / "pipe")
    told = acme("import", "acme", "contacts", "pipe", code=2).stderr
    assert "pipe is not a regular file" in told


def test_an_export_holds_what_the_filters_let_through(acme):
    _write(acme, [[f"p{n}@example.com", "", "Rome" if n % 2 else "Oslo"] for n in range(9)])
    acme("import", "acme", "contacts", "people.csv")
    rows = _exported(acme, "--filter", "city IN Rome,Oslo", "--filter", "email NEQ p1@example.com")
    assert sorted(row["email"] for row in rows) == [f"p{n}@example.com" for n in range(9) if n != 1]
    told = acme("export", "acme", "contacts", "-", "--filter", "city LIKE Rome", code=1).stderr
    assert "filters[0].operator: unknown operator; send one of EQ" in told
    told = acme("export", "acme", "contacts", "-", "--property", "citty", code=1).stderr
    assert "did you mean city" in told


def test_an_export_writes_over_nothing_and_leaves_no_half(acme):
    out = acme.root / "out.csv"
    out.write_text("mine")
    assert "--force" in acme("export", "acme", "contacts", "out.csv", code=2).stderr
    acme("export", "acme", "contacts", "out.csv", "--force", "--property", "nope", code=1)
    assert out.read_text() == "mine"
    assert [each.name for each in acme.root.glob("*.part")] == []
    assert "No such file" in acme("export", "acme", "contacts", "no/out.csv", code=1).stderr


def test_an_export_replaces_no_pipe_and_no_link(acme):
    pipe, out, link = (acme.root / name for name in ("pipe", "out.csv", "link.csv"))
    os.mkfifo(pipe)
    refused = acme("export", "acme", "contacts", "pipe", "--force", code=2).stderr
    assert "- is standard output" in refused
    assert pipe.is_fifo()
    out.write_text("mine")
    link.symlink_to(out)
    acme("export", "acme", "contacts", "link.csv", "--force")
    assert link.is_symlink()
    assert out.read_text() != "mine"


def test_notes_and_tasks_are_exported(acme, acme_hub):
    account = acme_hub.load_account("acme")
    new = [NewRecord({"email": f"p{n}@example.com"}) for n in range(2)]
    ids = [str(one.id) for one in acme_hub.records.create(account, CONTACTS, new)]
    task = {"subject": "Call", "due": "2031-01-31T09:30:00.000Z"}
    of_own, of_crm = (timeline.OWN, CONTACTS), (7, DEALS, "crm-5", timeline.NOTE)
    added = [
        Added(*of_own, ids[0], timeline.NOTE, "=1+1\nthen", 0, "Bob"),
        Added(*of_own, ids[1], timeline.NOTE, "of an archived record", 0),
        Added(*of_own, ids[0], timeline.TASK, "at home", 0, properties=task),
        *(Added(*of_crm, f"Note {n}", 0, crm_id=str(n)) for n in range(150)),
    ]
    for one in added:
        acme_hub.database.transact(lambda tx, one=one: timeline.add(tx, account, one))
    acme_hub.records.archive(account, CONTACTS, [(int(ids[1]), "id")])
    told = acme("export", "acme", "notes", "-")
    assert "152 notes." in told.stderr
    first, second, *others = csv.DictReader(StringIO(told.stdout))
    said = ("resource", "recordId", "kind", "author", "text", "at")
    assert [first[name] for name in said] == [
        *("contacts", ids[0], "note", "Bob", "'=1+1\nthen"),
        "1970-01-01T00:00:00.000Z",
    ]
    assert [second[name] for name in ("kind", "subject", "due", "text")] == [
        *("task", *task.values(), "at home"),
    ]
    places = {(one["resource"], one["recordId"]) for one in others}
    assert (places, [one["crmId"] for one in others]) == (
        {("deals", "crm-5")},
        [str(n) for n in range(150)],
    )
    acme("export", "acme", "notes", "-", "--labels", code=2)


def test_who_imported_and_exported_stands_in_the_audit_log(acme):
    _write(acme, [["a@b.co", "Ada", ""]])
    acme("import", "acme", "contacts", "people.csv")
    acme("export", "acme", "contacts", "out.csv")
    entries = acme.json("audit", "list", "--object", "records")
    assert [(each["verb"], each["objectId"]) for each in entries] == [
        ("export", "contacts"),
        ("import", "contacts"),
    ]
    assert entries[1]["after"] == {"created": 1, "updated": 0, "refused": 0}
