"""crmhub import of what HubSpot and Excel write: found out by itself, or refused with a way out."""

from __future__ import annotations

import csv
import re
from io import StringIO

import pytest

from crmhub.properties.kinds import CONTACTS, DEALS, KINDS
from crmhub.records import pipelines
from crmhub.records.models import NewRecord
from crmhub.records.pipelines import StageInput
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query

# What is found out in a file is the same on each database; what is written is marked with both.
pytestmark = pytest.mark.databases("sqlite")
both_databases = pytest.mark.databases("sqlite", "postgresql")


def write(crmhub, rows, *, name="people.csv", encoding="utf-8", delimiter=","):
    text = StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    (crmhub.root / name).write_bytes(text.getvalue().encode(encoding))


def exported(crmhub, kind="contacts", *options):
    found = crmhub("export", "acme", kind, "-", *options).stdout
    return list(csv.DictReader(StringIO(found)))


def refused(crmhub, name="people.refused.csv"):
    with (crmhub.root / name).open(newline="") as file:
        delimiter = csv.Sniffer().sniff(file.readline(), delimiters=",;\t").delimiter
        file.seek(0)
        return [(row[-2], row[-1]) for row in csv.reader(file, delimiter=delimiter)][1:]


def test_an_export_of_hubspot_is_imported_as_it_is(acme):
    write(
        acme,
        [
            ["Record ID", "First Name", "Last Name", "Email", "Phone Number", "Contact owner",
             "Lead Status", "Lifecycle Stage", "Create Date", "State/Region", "Close Date",
             "Marketing contact status", "Buying Role", "Unsubscribed from all email"],
            ["51", "Ada", "Lovelace", "ada@example.com", "+44 20 7946 0000", "Ann Lee",
             "Attempted to Contact", "Marketing Qualified Lead", "2024-05-01 10:00", "Kent",
             "2024-05-01 10:00", "Marketing contact", "Champion;Decision Maker", "false"],
            ["52", "Bob", "", "bob@", "", "", "", "", "2024-05-02 11:30", "", "", "", "", ""],
        ],
    )  # fmt: skip
    told = acme("import", "acme", "contacts", "people.csv", code=1)
    assert "1 created, 0 updated" in told.stdout
    assert "Skipped columns: Record ID, Create Date, Marketing contact status." in told.stderr
    [row] = exported(acme)
    assert row["id"] != "51"
    assert {
        name: row[name] for name in ("firstname", "lifecyclestage", "hs_lead_status", "state")
    } == {
        "firstname": "Ada",
        "lifecyclestage": "marketingqualifiedlead",
        "hs_lead_status": "ATTEMPTED_TO_CONTACT",
        "state": "Kent",
    }
    assert row["closedate"] == "2024-05-01T10:00:00.000Z"
    assert row["hs_buying_role"] == "CHAMPION;DECISION_MAKER"
    assert (row["hubspot_owner_id"], row["hs_email_optout"]) == ("Ann Lee", "false")
    [(line, reason)] = refused(acme)
    assert (line, reason.startswith('email: "bob@" is not an email address')) == ("3", True)


def test_stages_are_named_by_their_labels(acme):
    titles = ["Deal Name", "Pipeline", "Deal Stage", "Amount", "Close Date"]
    write(
        acme,
        [
            titles,
            ["A", "Sales Pipeline", "Closed Won (Sales Pipeline)", "1200.50", "2024-05-01"],
            ["B", "", "contract sent", "7", ""],
            ["C", "default", "closedlost", "", ""],
            ["D", "", "Nowhere", "", ""],
        ],
    )
    acme("import", "acme", "deals", "people.csv", code=1)
    found = {
        row["dealname"]: (row["pipeline"], row["dealstage"]) for row in exported(acme, "deals")
    }
    assert found == {
        "A": ("default", "closedwon"),
        "B": ("default", "contractsent"),
        "C": ("default", "closedlost"),
    }
    [(line, reason)] = refused(acme)
    assert (line, 'no stage "Nowhere"' in reason) == ("5", True)


def test_a_label_that_two_pipelines_have_needs_the_pipeline(acme, acme_hub):
    account = acme_hub.directory.by_client_id("acme")
    stages = [StageInput(label="Closed Won"), StageInput(label="New")]
    second = pipelines.add(acme_hub.records, account, DEALS, label="Partners", stages=stages)
    titles = ["Deal name", "Deal stage", "Pipeline"]
    rows = [["A", "Closed won", ""], ["B", "Closed won", "partners"], ["C", "new", ""]]
    write(acme, [titles, *rows])
    acme("import", "acme", "deals", "people.csv", code=1)
    [(line, reason)] = refused(acme)
    assert line == "2"
    assert "is a stage of the pipelines default, " in reason
    found = {
        row["dealname"]: (row["pipeline"], row["dealstage"]) for row in exported(acme, "deals")
    }
    assert found == {
        "B": (second.id, second.stages[0].id),
        "C": (second.id, second.stages[1].id),
    }


def test_a_file_of_excel_has_its_numbers_days_and_letters(acme):
    write(
        acme,
        [
            ["Deal name", "Amount", "Close date", "Forecast probability"],
            ["Müller & Söhne", "1.234,50 €", "31.12.2024", "0,5"],
            ["Besançon", "1.234", "1.2.2024 09:30", ""],
            ["bad", "12.34.5", "", ""],
        ],
        encoding="cp1252",
        delimiter=";",
    )
    told = acme("import", "acme", "deals", "people.csv", code=1)
    assert "3 rows in cp1252, separated by semicolon." in told.stderr
    found = {row["dealname"]: row for row in exported(acme, "deals")}
    assert found["Müller & Söhne"]["amount"] == "1234.5"
    assert found["Müller & Söhne"]["hs_forecast_probability"] == "0.5"
    assert found["Müller & Söhne"]["closedate"] == "2024-12-31T00:00:00.000Z"
    assert found["Besançon"]["amount"] == "1234"
    assert found["Besançon"]["closedate"] == "2024-02-01T09:30:00.000Z"
    assert refused(acme)[0][0] == "4"


@pytest.mark.parametrize(
    ("titles", "row", "option", "words"),
    [
        ("Deal name;Amount", "A;1.234", ("--decimal", ","), "Line 2 has 1.234, which can be read"),
        (
            "Deal name,Amount",
            'A,="1.234"',
            ("--decimal", ","),
            "Line 2 has 1.234, which can be read",
        ),
        (
            "Deal name,Amount",
            "A,1.234 €",
            ("--decimal", ","),
            "Line 2 has 1.234 €, which can be read",
        ),
        (
            "Deal name;Close date",
            "A;3/4/2024",
            ("--dates", "dmy"),
            "Line 2 has 3/4/2024, which can",
        ),
    ],
)
def test_what_can_be_read_in_two_ways_is_asked(acme, titles, row, option, words):
    (acme.root / "people.csv").write_text(f"{titles}\n{row}\n")
    told = acme("import", "acme", "deals", "people.csv", code=1).stderr
    assert words in told
    assert option[0] in told
    acme("import", "acme", "deals", "people.csv", *option)
    [found] = exported(acme, "deals")
    assert found["amount"] == "1234" or found["closedate"] == "2024-04-03T00:00:00.000Z"


def test_times_are_those_of_the_named_zone(acme):
    write(acme, [["Deal name", "Close date"], ["A", "2024-07-01 10:00"]])
    told = acme("import", "acme", "deals", "people.csv", "--timezone", "Mars", code=1).stderr
    assert "--timezone: unknown time zone" in told
    acme("import", "acme", "deals", "people.csv", "--timezone", "Europe/Berlin")
    assert exported(acme, "deals")[0]["closedate"] == "2024-07-01T08:00:00.000Z"


def test_a_phone_that_excel_shortened_is_refused(acme):
    write(acme, [["firstname", "phone"], ["Ada", "4,91512E+11"], ["Bob", "+491512345678"]])
    acme("import", "acme", "contacts", "people.csv", code=1)
    assert [row["firstname"] for row in exported(acme)] == ["Bob"]
    assert "was shortened by a spreadsheet" in refused(acme)[0][1]


def test_an_amount_with_an_exponent_is_read_if_no_digit_is_lost(acme):
    write(acme, [["dealname", "amount"], ["A", "1.2346E+11"], ["B", "1.25E-2"], ["C", "1.2345E+2"]])
    done = acme.json("import", "acme", "deals", "people.csv", code=1)
    assert (done["created"], done["refused"]) == (2, 1)
    assert {row["amount"] for row in exported(acme, "deals")} == {"0.0125", "123.45"}


@both_databases
def test_an_export_is_imported_unchanged(acme, acme_hub):
    before = ["", " ", "\t", "\n", "\r\n", "\xa0", "\u200b", "\ufeff", "\x1f", "'", "''"]
    after = [
        "=1+1", "+1", "@a", "-", '="01"', "01234", "5E+11", "tis", "＝1", "a;b,c", '"q"', "x\ry",
    ]  # fmt: skip
    account = acme_hub.directory.by_client_id("acme")
    values = [each for first in before for last in after if (each := first + last)]
    inputs = [NewRecord({"firstname": "A", "city": value}) for value in values]
    acme_hub.database.transact(lambda tx: acme_hub.records.create(account, CONTACTS, inputs))
    acme("export", "acme", "contacts", "out.csv")
    acme("export", "acme", "contacts", "raw.csv", "--raw")
    plain = list(
        csv.DictReader(StringIO((acme.root / "out.csv").read_bytes().decode(), newline=""))
    )
    assert not [
        row["city"]
        for row in plain
        if re.match(r"[\W]*[=@]", row["city"]) and row["city"][0] != "'"
    ]
    # Without its ids, the same file creates the same records again.
    acme("import", "acme", "contacts", "out.csv")
    acme("export", "acme", "contacts", "again.csv", "--raw")
    raw, again = (
        [
            row["city"]
            for row in csv.DictReader(
                StringIO((acme.root / name).read_bytes().decode(), newline="")
            )
        ]
        for name in ("raw.csv", "again.csv")
    )
    assert len(raw) == len(values)
    assert again == raw * 2


def test_of_two_columns_with_one_title_one_is_imported_as_the_message_says(acme):
    write(acme, [["Email", "Phone", "Phone"], ["ada@example.com", "+34600222111", "+34600222333"]])
    told = acme("import", "acme", "contacts", "people.csv", code=1).stderr
    assert "column 'Phone (2)': an earlier column holds phone already; leave it out with" in told
    [advice] = re.findall(r"--column '([^']+)'", told)
    told = acme("import", "acme", "contacts", "people.csv", "--column", advice).stderr
    assert "Skipped columns: Phone (2)." in told
    assert exported(acme)[0]["phone"] == "+34600222111"
    options = ("--column", "Phone=", "--by", "email", "--again")
    assert (
        "Skipped columns: Phone."
        in acme("import", "acme", "contacts", "people.csv", *options).stderr
    )
    assert exported(acme)[0]["phone"] == "+34600222333"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_rejected_rows_name_their_own_line(acme, end):
    rows = [
        "email,firstname",
        'a@b.co,"two',
        'lines"',
        "bad,Bob",
        "",
        "a@b.co,Again",
        '"c@d.co",x,y',
    ]
    (acme.root / "people.csv").write_bytes(end.join(rows).encode())
    told = acme("import", "acme", "contacts", "people.csv", code=1).stdout
    assert [line for line, _ in refused(acme)] == ["4", "6", "7"]
    for line in ("line 4", "line 6", "line 7"):
        assert f"({line})" in told
    assert [row["firstname"].split() for row in exported(acme)] == [["two", "lines"]]


def test_a_row_with_the_character_zero_is_refused(acme):
    rows = ["email,firstname", *(f"p{n}@b.co,{'x' * 200}" for n in range(6000)), "c@d.co,A\0da"]
    (acme.root / "people.csv").write_text("\n".join(rows))
    done = acme.json("import", "acme", "contacts", "people.csv", code=1)
    assert (done["created"], done["refused"]) == (6000, 1)
    assert refused(acme) == [("6002", "it contains the character U+0000; delete it")]


@both_databases
def test_an_import_makes_no_known_phone_worse(acme):
    titles = ["email", "phone"]
    write(acme, [titles, ["ada@example.com", "+12025550199"]])
    acme("import", "acme", "contacts", "people.csv")
    for region in ("", "DE"):
        acme("account", "set", "acme", f"region={region}")
        for phone in ("12025550199", "0012025550199", "12025550199.0", "12025550199@c.us"):
            write(acme, [titles, ["ada@example.com", phone]])
            acme("import", "acme", "contacts", "people.csv", "--by", "email", "--again")
            assert exported(acme)[0]["phone"].lstrip("'") == "+12025550199", (region, phone)


@both_databases
def test_a_row_with_more_than_a_phone_number_is_refused(acme):
    texts = ["12025550199@lid", "Mobile: +12025550199", "+12025550199, +12025550198"]
    write(acme, [["firstname", "phone"], *([f"P{n}", text] for n, text in enumerate(texts))])
    acme("import", "acme", "contacts", "people.csv", code=1)
    assert exported(acme) == []


def test_utf_16_with_bad_rows_goes_on_where_it_was_stopped(acme):
    rows = [[f"p{n}@example.com" if n % 33 else "bad", f"Größe {n}", "日本"] for n in range(700)]
    write(acme, [["Email", "First name", "City"], *rows], encoding="utf-16", delimiter="\t")
    acme("account", "set", "acme", "plan=free")
    done = acme.json("import", "acme", "contacts", "people.csv", code=1)
    assert (done["created"], done["refused"]) == (678, 22)
    assert [line for line, _ in refused(acme)] == [str(n + 2) for n in range(0, 700, 33)]
    assert {row["city"] for row in exported(acme)} == {"日本"}


def test_unknown_columns_are_skipped_if_told_so(acme):
    write(acme, [["email", "Shoe size"], ["ada@example.com", "38"]])
    dry = acme("import", "acme", "contacts", "people.csv", "--dry-run", code=1)
    assert "Shoe size  Shoe size  (see the error)  38" in dry.stdout
    told = acme("import", "acme", "contacts", "people.csv", code=1).stderr
    assert "column 'Shoe size'" in told
    assert "--ignore-unknown" in told
    told = acme("import", "acme", "contacts", "people.csv", "--ignore-unknown").stderr
    assert "Skipped columns: Shoe size." in told
    assert len(exported(acme)) == 1


@both_databases
def test_a_dry_run_shows_the_columns_and_all_faults_and_stores_nothing(acme):
    rows = [["ada@example.com", "Ada"], ["bad", "Bob"], ["ADA@example.com", "Again"]]
    write(acme, [["E-Mail", "First Name"], *rows])
    told = acme("import", "acme", "contacts", "people.csv", "--dry-run", code=1)
    assert "E-Mail      email      label" in told.stdout
    assert "ada@example.com | bad | ADA@example.com" in told.stdout
    assert "1 would be created, 0 would be updated.\n2 would be refused." in told.stdout
    assert "1 × email: line 2 has this value already" in told.stdout
    assert exported(acme) == []
    assert not (acme.root / "people.refused.csv").exists()
    done = acme.json(
        "import", "acme", "contacts", "people.csv", "--dry-run", "--by", "email", code=1
    )
    assert (done["created"], done["updated"], done["refused"]) == (1, 1, 1)
    assert acme.json("import", "acme", "contacts", "people.csv", code=1)["created"] == 1


def test_a_dry_run_says_that_the_plan_will_not_do(acme):
    acme("account", "set", "acme", "plan=free")
    write(acme, [["email"], *([f"p{n}@example.com"] for n in range(1300))])
    told = acme("import", "acme", "contacts", "people.csv", "--dry-run").stdout
    assert "The plan allows 1,000 contacts, and there are 0: the import will stop" in told


@both_databases
def test_an_import_whose_rows_all_fail_alike_stops_early(acme):
    write(acme, [["dealname", "amount"], *([f"D{n}", f"about {n}"] for n in range(600))])
    told = acme("import", "acme", "deals", "people.csv", code=1).stderr
    assert "Nothing was imported. The first 200 rows fail for one reason: amount:" in told
    assert "Perhaps name the decimal separator with --decimal." in told
    assert not (acme.root / "people.refused.csv").exists()
    done = acme.json("import", "acme", "deals", "people.csv", "--keep-going", code=1)
    assert done["refused"] == 600
    assert len(done["reasons"]) == 1


def test_rows_that_fail_for_several_reasons_stop_nothing(acme):
    rows = [["bad", ""] if n % 2 else ["a@b.co", "x"] for n in range(250)]
    write(acme, [["email", "hs_email_optout"], *rows, ["ok@example.com", ""]])
    done = acme.json("import", "acme", "contacts", "people.csv", code=1)
    assert (done["created"], done["refused"]) == (1, 250)


@both_databases
def test_a_column_links_to_the_record_that_it_names(acme, acme_hub):
    write(acme, [["name"], ["Acme"], ["Twin"], ["Twin"]], name="companies.csv")
    acme("import", "acme", "companies", "companies.csv")
    write(
        acme,
        [
            ["Email", "Company name"],
            ["ada@example.com", "Acme"],
            ["bob@example.com", "Nobody"],
            ["cid@example.com", "Twin"],
            ["dan@example.com", ""],
        ],
    )
    link = ("--link", "Company name=companies.name")
    done = acme.json("import", "acme", "contacts", "people.csv", *link, code=1)
    assert (done["created"], done["refused"]) == (2, 2)
    reasons = dict(refused(acme))
    assert reasons["3"].startswith("there is no company with name Nobody; import the companies")
    assert reasons["4"].startswith("2 companies have name Twin (ids ")
    account = acme_hub.directory.by_client_id("acme")
    query = PageRequest(Query(limit=10), include=("associations",))
    page = acme_hub.records.page(account, CONTACTS, query)
    [company] = [row["id"] for row in exported(acme, "companies") if row["name"] == "Acme"]
    assert [links for links in page.links.values() if links] == [{"companies": [int(company)]}]
    # The same again changes nothing.
    (acme.root / "people.refused.csv").unlink()
    again = (*link, "--by", "email", "--again")
    assert acme.json("import", "acme", "contacts", "people.csv", *again, code=1)["updated"] == 2


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("companies", "companies is no target; write KIND.PROPERTY"),
        ("companies.nmae", "companies have no property nmae; did you mean name"),
        ("companies.annualrevenue", "annualrevenue is a currency; link by"),
    ],
)
def test_a_link_to_nothing_is_refused_before_anything_is_stored(acme, target, words):
    write(acme, [["Email", "Firm"], ["ada@example.com", "Acme"]])
    told = acme("import", "acme", "contacts", "people.csv", "--link", f"Firm={target}", code=1)
    assert words in told.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_with_labels_is_found_again(acme, kind):
    acme("export", "acme", kind, "out.csv", "--labels", "--bom", "--delimiter", ";")
    content = (acme.root / "out.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbfid;")
    done = acme.json("import", "acme", kind, "out.csv", "--dry-run")
    assert done["leftOut"] == ["id", "createdAt", "updatedAt"]
    names = acme("export", "acme", kind, "-").stdout.strip().split(",")
    titles = content.decode("utf-8-sig").strip().split(";")
    assert len(titles) == len(names)
    assert titles != names
