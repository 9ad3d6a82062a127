"""Imports and exports of CSV files in the console: upload, columns, dry run, worker, download."""

from __future__ import annotations

import csv
import html
import re
import threading
import time
from io import BytesIO, StringIO

import pytest

from crmhub.console import sessions
from crmhub.csv import importing
from crmhub.database import expired
from crmhub.operators.files import import_jobs, running_imports
from tests.consoles import text_of

BAD = "<img src=x onerror=alert(1)>"


def base(client) -> str:
    return f"/accounts/{client.account.client_id}/imports"


def upload(operator, client, content, *, name="people.csv", kind="contacts"):
    content = content.encode() if isinstance(content, str) else content
    form = {"kind": kind, "file": (BytesIO(content), name)}
    answer = operator.send(base(client), form, content_type="multipart/form-data")
    assert answer.status_code == 303, text_of(answer)
    return answer.headers["Location"].removeprefix("/console")


def form_of(page) -> dict[str, str]:
    """Return what a browser would send of the draft's form, without a button."""
    titles = re.findall(r'type="hidden" name="(title\.\d+)" value="([^"]*)"', page.text)
    form = {name: html.unescape(title) for name, title in titles}
    for name, body in re.findall(
        r'<select[^>]* name="([^"]+)"[^>]*>(.*?)</select>', page.text, re.S
    ):
        chosen = re.search(r'value="([^"]*)" selected', body)
        form[name] = chosen[1] if chosen else ""
    return form


def run(hub, operator, at):
    """Let workers run, until the import has ended; return its page."""
    while "data-refresh" in (page := operator.get(at)).text:
        if not running_imports.run_next(hub, threading.Event()):
            time.sleep(0.01)
    return page


def start(hub, operator, at, action="import", **changed):
    form = form_of(operator.get(at)) | changed | {"action": action}
    answer = operator.send(at, form)
    assert answer.status_code == 303, text_of(answer)
    return run(hub, operator, at)


def emails(client):
    return sorted(each["properties"].get("email", "") for each in client.list("contacts"))


def test_a_file_is_looked_at_tried_and_imported(hub, client, operator):
    content = (
        "Record ID,First Name,Email,Lead Status,Shoe\n1,Ada,ada@example.com,New,38\n2,Bob,bad,,\n"
    )
    at = upload(operator, client, content)
    draft = operator.get(at)
    assert "2 rows in utf-8, separated by comma" in text_of(draft)
    assert "Only HubSpot fills this in." in draft.text
    assert "No property has this name." in draft.text
    form = form_of(draft)
    assert [form[f"column.{n}"] for n in range(5)] == [
        "",
        "firstname",
        "email",
        "hs_lead_status",
        "",
    ]
    tried = start(hub, operator, at, "dry-run")
    assert "dry run done" in text_of(tried)
    assert "1 × email: &#34;bad&#34; is not an email address" in tried.text
    assert client.get("/contacts").json["total"] == 0
    operator.send(at, {"action": "import"})
    done = run(hub, operator, at)
    assert "done, with rejected rows" in text_of(done)
    assert client.get("/contacts").json["total"] == 1
    refused = operator.get(f"{at}/refused.csv")
    assert refused.headers["Content-Disposition"].startswith('attachment; filename="people.refused')
    titles, row = csv.reader(StringIO(refused.data.decode("utf-8-sig")))
    assert titles[-2:] == ["crmhub_line", "crmhub_refused"]
    assert row[-2] == "3"
    assert "people.csv" in text_of(operator.get(base(client)))
    # The file is gone, and nothing is imported twice.
    assert operator.send(at, {"action": "import"}, at=base(client)).status_code in (404, 409)


def test_columns_are_chosen_and_records_updated_and_linked(hub, client, operator):
    client.make("companies", name="Acme")
    client.make(email="ada@example.com", firstname="Ada")
    at = upload(operator, client, "Mail;Town;Firm\nada@example.com;Rome;Acme\n")
    chosen = {"column.0": "email", "column.1": "city", "link.2": "companies.name", "by": "email"}
    operator.send(at, form_of(operator.get(at)) | chosen | {"action": "preview"})
    assert form_of(operator.get(at))["link.2"] == "companies.name"
    done = start(hub, operator, at)
    assert "Updated 1" in text_of(done)
    [contact] = client.get("/contacts?include=associations").json["results"]
    assert contact["properties"]["city"] == "Rome"
    assert len(contact["associations"]["companies"]) == 1


@pytest.mark.databases("sqlite")
def test_what_is_not_clear_is_asked_in_the_words_of_the_form(hub, client, operator):
    at = upload(operator, client, "Name;Note\nPaweł;x\n".encode("cp1250"))
    page = operator.get(at)
    assert "encoding cannot be determined" in text_of(page)
    assert "Choose the right encoding below" in text_of(page)
    assert "--" not in text_of(page)
    operator.send(at, form_of(page) | {"encoding": "cp1250", "action": "preview"})
    assert "Paweł" in operator.get(at).text
    at = upload(operator, client, "Deal name;Amount\nA;1.234\n", kind="deals")
    answer = operator.send(at, form_of(operator.get(at)) | {"action": "import"})
    assert answer.status_code == 422
    assert "choose the decimal separator below" in text_of(answer)


@pytest.mark.databases("sqlite")
def test_what_is_no_file_to_import_is_refused(client, operator, monkeypatch):
    for form, words in (
        ({"kind": "contacts"}, "Choose a file."),
        ({"kind": "people", "file": (BytesIO(b"a\n"), "a.csv")}, "Choose what the rows are"),
        ({"kind": "contacts", "file": (BytesIO(b""), "a.csv")}, "The file is empty."),
    ):
        answer = operator.send(base(client), form, content_type="multipart/form-data")
        assert answer.status_code == 400
        assert words in text_of(answer)
    at = upload(operator, client, b"PK\x03\x04abc", name="../../people.xlsx")
    assert "people.xlsx is an Excel workbook" in text_of(operator.get(at))
    monkeypatch.setattr(sessions, "MAX_UPLOAD_BYTES", 100_000)
    long = {"kind": "contacts", "file": (BytesIO(b"x" * 200_000), "a.csv")}
    answer = operator.send(base(client), long, content_type="multipart/form-data")
    assert answer.status_code == 413
    assert "The file is larger than" in text_of(answer)


@pytest.mark.databases("sqlite")
def test_titles_and_cells_stay_text(hub, client, operator):
    content = f'"{BAD}",Email\n"{BAD}",ada@example.com\n'
    at = upload(operator, client, content, name=f"{BAD}.csv")
    page = operator.get(at)
    assert "<img src=x" not in page.text
    done = start(hub, operator, at, **{"column.0": "firstname"})
    assert "Created 1" in text_of(done)
    assert "<img src=x" not in operator.get(base(client)).text


def test_an_import_that_all_fails_can_be_changed(hub, client, operator):
    rows = "".join(f"A{n},about {n}\n" for n in range(300))
    at = upload(operator, client, f"Deal name,Amount\n{rows}", kind="deals")
    failed = start(hub, operator, at)
    assert "The first 200 rows fail for one reason: amount:" in text_of(failed)
    operator.send(f"{at}/state", {"action": "reopen"}, at=at)
    done = start(hub, operator, at, **{"column.1": ""})
    assert "Created 300" in text_of(done)
    assert operator.send(f"{at}/state", {"action": "reopen"}, at=at).status_code == 409


def test_a_worker_that_dies_is_followed_by_another(hub, client, operator, monkeypatch):
    monkeypatch.setattr(importing, "_BATCH_ROWS", 50)
    rows = "".join(f"p{n}@example.com\n" if n % 10 else "bad\n" for n in range(400))
    at = upload(operator, client, f"email\n{rows}")
    operator.send(at, form_of(operator.get(at)) | {"action": "import", "keep_going": "true"})
    job = import_jobs.find(hub, client.account, at.rpartition("/")[2])
    monkeypatch.setattr(running_imports, "_SLICE_S", 0.0)

    def die(*args, **kwargs):
        raise SystemExit

    with monkeypatch.context() as dying:
        # After the first batch is stored the process ends.
        dying.setattr(import_jobs, "renew", die)
        dying.setattr(import_jobs, "end", lambda *args: None)
        dying.setattr(import_jobs, "due", lambda database: [(job.account_id, job.id)])
        with pytest.raises(SystemExit):
            running_imports.run_next(hub, threading.Event())
    assert 0 < client.get("/contacts").json["total"] < 360
    hub.database.transact(
        lambda tx: tx.run(
            "update import_job set lease_until = 0 where account_id = :account and id = :id",
            {"account": job.account_id, "id": job.id},
        )
    )
    done = run(hub, operator, at)
    assert "Created 360 Updated 0 Rejected 40" in text_of(done)
    assert client.get("/contacts").json["total"] == 360
    refused = operator.get(f"{at}/refused.csv").data.decode("utf-8-sig")
    lines = [row[-2] for row in csv.reader(StringIO(refused))][1:]
    assert lines == [str(n + 2) for n in range(0, 400, 10)]


def test_a_dry_run_gives_way_to_other_imports(hub, client, operator, monkeypatch):
    monkeypatch.setattr(importing, "_BATCH_ROWS", 50)
    monkeypatch.setattr(running_imports, "_SLICE_S", 0.0)
    rows = "".join(f"p{n % 390}@example.com\n" if n % 100 else "bad\n" for n in range(400))
    at = upload(operator, client, f"email\n{rows}")
    operator.send(at, form_of(operator.get(at)) | {"action": "dry-run", "keep_going": "true"})
    second = upload(operator, client, "email\nada@example.com\n", name="second.csv")
    operator.send(second, form_of(operator.get(second)) | {"action": "import"})
    key = [(client.account.id, each.rpartition("/")[2]) for each in (at, second)]
    monkeypatch.setattr(import_jobs, "due", lambda database: key[:1])
    running_imports.run_next(hub, threading.Event())
    page = operator.get(at)
    assert "data-refresh" in page.text
    assert "Rows 0 of 400" not in text_of(page)
    monkeypatch.undo()
    monkeypatch.setattr(importing, "_BATCH_ROWS", 50)
    monkeypatch.setattr(running_imports, "_SLICE_S", 0.0)
    assert "Created 1 " in text_of(run(hub, operator, second))
    done = text_of(run(hub, operator, at))
    assert "Would be created 387 Would be updated 0 Would be rejected 13" in done
    assert '4 × email: "bad" is not an email address' in done
    assert "(lines 2, 102, 202, 302)" in done
    assert "email: line 3 has this value already (lines 393, 394, 395, 396, 397, …)" in done
    refused = operator.get(f"{at}/refused.csv").data.decode("utf-8-sig")
    lines = [row[-2] for row in csv.reader(StringIO(refused))][1:]
    assert lines == [str(line) for line in (2, 102, 202, 302, *range(393, 402))]
    assert client.get("/contacts").json["total"] == 1


def test_a_dry_run_whose_worker_dies_is_continued(hub, client, operator, monkeypatch):
    monkeypatch.setattr(importing, "_BATCH_ROWS", 50)
    monkeypatch.setattr(running_imports, "_SLICE_S", 0.0)
    rows = "".join(f"p{n}@example.com\n" if n % 10 else "bad\n" for n in range(400))
    at = upload(operator, client, f"email\n{rows}")
    operator.send(at, form_of(operator.get(at)) | {"action": "dry-run", "keep_going": "true"})
    key = (client.account.id, at.rpartition("/")[2])

    def die(*args, **kwargs):
        raise SystemExit

    for dies_at in ("", "end", ""):
        with monkeypatch.context() as dying:
            dying.setattr(import_jobs, "due", lambda database: [key])
            if dies_at:
                dying.setattr(import_jobs, dies_at, die)
                with pytest.raises(SystemExit):
                    running_imports.run_next(hub, threading.Event())
                hub.database.transact(
                    lambda tx: tx.run(
                        "update import_job set lease_until = 0 where account_id = :account",
                        {"account": client.account.id},
                    )
                )
            else:
                running_imports.run_next(hub, threading.Event())
    assert "Would be created 360 Would be updated 0 Would be rejected 40" in text_of(
        run(hub, operator, at)
    )
    refused = operator.get(f"{at}/refused.csv").data.decode("utf-8-sig")
    lines = [row[-2] for row in csv.reader(StringIO(refused))][1:]
    assert lines == [str(n + 2) for n in range(0, 400, 10)]


@pytest.mark.databases("sqlite")
def test_of_two_columns_with_one_title_the_first_is_imported(hub, client, operator):
    at = upload(operator, client, "Email,Phone,Phone\nada@example.com,+34600222111,+34600222333\n")
    page = operator.get(at)
    assert "An earlier column holds this property." in page.text
    answer = operator.send(at, form_of(page) | {"column.2": "phone", "action": "import"})
    assert answer.status_code == 422
    assert "an earlier column holds phone already; skip it" in text_of(answer)
    assert "--" not in text_of(answer)
    assert "Created 1" in text_of(start(hub, operator, at))
    [contact] = client.get("/contacts").json["results"]
    assert contact["properties"]["phone"] == "+34600222111"


@pytest.mark.databases("sqlite")
def test_a_file_that_cannot_be_read_is_explained_on_its_page(client, operator):
    at = upload(operator, client, ",".join(f"t{n}" for n in range(5000)) + "\n")
    assert "more than 1,000 columns" in text_of(operator.get(at))
    at = upload(operator, client, "email,firstname\na@b.co,김철수\n".encode("euc_kr"))
    page = operator.get(at)
    assert "김철수 in euc_kr" in text_of(page)
    for encoding in ("zlib", "rot13", "idna", "unicode_escape", "undefined", "utf-32"):
        form = form_of(page) | {"encoding": encoding, "delimiter": ","}
        for action in ("preview", "import"):
            answer = operator.send(at, form | {"action": action})
            assert answer.status_code in (303, 400), (encoding, action)
        assert "known encoding" in text_of(operator.get(at))
    operator.send(at, form_of(page) | {"encoding": "euc_kr", "action": "preview"})
    assert "김철수" in operator.get(at).text


@pytest.mark.databases("sqlite")
def test_a_stopped_import_keeps_its_rows_and_goes_on(hub, client, operator, monkeypatch):
    monkeypatch.setattr(importing, "_BATCH_ROWS", 50)
    at = upload(operator, client, "email\n" + "".join(f"p{n}@example.com\n" for n in range(400)))
    operator.send(at, form_of(operator.get(at)) | {"action": "import"})
    renew = import_jobs.renew

    def stop_first(database, job, *args, **kwargs):
        import_jobs.stop(hub, client.account, job.id)
        return renew(database, job, *args, **kwargs)

    with monkeypatch.context() as stopping:
        stopping.setattr(import_jobs, "renew", stop_first)
        page = run(hub, operator, at)
    assert "stopped" in text_of(page)
    stored = client.get("/contacts").json["total"]
    assert 0 < stored < 400
    assert f"Created {stored}" in text_of(page)
    operator.send(f"{at}/state", {"action": "continue"}, at=at)
    assert "Created 400" in text_of(run(hub, operator, at))
    operator.send(f"{at}/deleted", at=at)
    assert operator.get(at).status_code == 404


def test_imports_are_the_accounts_own_and_are_forgotten(hub, client, other, operator):
    at = upload(operator, client, "email\nada@example.com\n")
    theirs = at.replace(client.account.client_id, other.account.client_id)
    for path in (theirs, f"{theirs}/refused.csv"):
        assert operator.get(path).status_code == 404
    assert operator.send(theirs, {"action": "import"}, at=at).status_code == 404
    assert operator.get(f"{base(client)}/%2e%2e").status_code == 404
    hub.database.transact(
        lambda tx: tx.run(
            "update import_job set changed_at = 1 where account_id = :id",
            {"id": client.account.id},
        )
    )
    assert expired.delete_expired(hub.database, expired.IMPORTS) >= 1
    assert operator.get(at).status_code == 404


@pytest.mark.databases("sqlite")
def test_an_export_is_sent_with_labels_and_filters(client, operator):
    client.make(email="ada@example.com", firstname="=1+1")
    client.make(email="bob@example.com", firstname="Bob")
    path = f"/accounts/{client.account.client_id}/export"
    query = {"kind": "contacts", "labels": "true", "bom": "true", "delimiter": ";"}
    only = {"property": "email", "operator": "EQ", "value": "ada@example.com"}
    answer = operator.get(path, query_string=query | only)
    assert answer.data.startswith(b"\xef\xbb\xbfid;First name;")
    [row] = csv.DictReader(StringIO(answer.data.decode("utf-8-sig")), delimiter=";")
    assert row["First name"] == "'=1+1"
    assert answer.headers["Content-Disposition"].startswith("attachment; filename=")
    assert operator.get(path, query_string=only | {"property": "nope"}).status_code == 422
    assert operator.get(path, query_string={"delimiter": "x"}).status_code == 400


@pytest.mark.databases("sqlite")
def test_notes_are_exported(client, operator):
    id = client.make(email="ada@example.com")
    body = {"contactId": str(id), "text": "Calls back", "author": "Bob"}
    assert client.helper("/crm-api-interface/addNote/{portal}", body).status_code == 200
    account = f"/accounts/{client.account.client_id}"
    assert "Notes and tasks" in operator.get(f"{account}/imports").text
    answer = operator.get(f"{account}/export", query_string={"kind": "notes", "bom": "true"})
    [row] = csv.DictReader(StringIO(answer.data.decode("utf-8-sig")))
    assert (row["recordId"], row["author"], row["text"]) == (str(id), "Bob", "Calls back")
    assert "-notes-" in answer.headers["Content-Disposition"]
