"""Cells with options and with yes or no, as people write them."""

from __future__ import annotations

import csv
from io import StringIO


def test_cells_are_read_as_people_write_them(crmhub):
    crmhub("account", "create", "Acme")
    first = (
        "email,hs_buying_role,hs_email_optout\n"
        "a@example.com,CHAMPION;BLOCKER,Ja\n"
        'b@example.com,"Champion, blocker",não\n'
        "c@example.com,;Champion,HAYIR\n"
    )
    again = "email,hs_buying_role\na@example.com,;Influencer\nb@example.com,; CHAMPION\n"
    for text, options in ((first, ()), (again, ("--by", "email"))):
        crmhub.root.joinpath("people.csv").write_text(text, encoding="utf-8")
        crmhub("import", "acme", "contacts", "people.csv", *options)
    exported = csv.DictReader(StringIO(crmhub("export", "acme", "contacts", "-").stdout))
    shown = {row["email"]: (row["hs_buying_role"], row["hs_email_optout"]) for row in exported}
    assert shown == {
        "a@example.com": ("CHAMPION;BLOCKER;INFLUENCER", "true"),
        "b@example.com": ("CHAMPION;BLOCKER", "false"),
        "c@example.com": ("CHAMPION", "false"),
    }
