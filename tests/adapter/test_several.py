"""Lists of emails and phones, some entries of which are properties."""

from __future__ import annotations

from typing import Any

from crmhub.adapter.several import Several
from tests.loops import for_each

EMAIL, PHONE = Several("emails", "email"), Several("phones", "phone")
MOBILE = Several("phones", "phone", labelled="mobile")
OTHER_NAMES = Several("mails", "email", value="mail", primary="main", label="kind")
WORK = {"value": "+49301234567", "primary": True, "label": "work"}
CELL = {"value": "+49 1512 3456789", "primary": False, "label": "mobile"}
ROW: dict[str, Any] = {"phones": [WORK, CELL]}


def test_a_property_is_the_primary_entry_or_the_labelled_one() -> None:
    assert [one.text(ROW) for one in (PHONE, MOBILE, EMAIL)] == [WORK["value"], CELL["value"], ""]
    assert PHONE.text({"phones": [CELL]}) == CELL["value"], "without a primary one, the first"


def test_a_row_has_the_values_of_all_entries_in_any_notation() -> None:
    assert PHONE.has(ROW, "+4915123456789")
    assert not PHONE.has(ROW, "+4915123456780")
    assert EMAIL.has({"emails": ["Ann@X.org", ""]}, "ann@x.org"), "as texts"
    assert PHONE.joined(ROW) == f"{WORK['value']}\n{CELL['value']}"


@for_each(
    ("several", "text", "phones"),
    [
        (PHONE, "", [{**CELL, "primary": True}]),
        (PHONE, "+4915123456789", [{**WORK, "primary": False}, {**CELL, "primary": True}]),
        (
            PHONE,
            "+491701",
            [{**WORK, "primary": False}, CELL, {**WORK, "value": "+491701"}],
        ),
        (MOBILE, "", [WORK]),
        (MOBILE, "+491701", [WORK, {**CELL, "value": "+491701"}]),
        (MOBILE, WORK["value"], [{**WORK, "label": "mobile"}, CELL]),
    ],
)
def test_a_new_value_is_written_with_all_other_entries(
    several: Several, text: str, phones: list[dict[str, object]]
) -> None:
    assert several.written(ROW, text) == phones
    assert ROW == {"phones": [WORK, CELL]}


def test_a_new_email_replaces_the_primary_one_only() -> None:
    row = {"mails": [{"mail": "a@x.org", "main": False}, {"mail": "b@x.org", "main": True}]}
    assert OTHER_NAMES.written(row, "c@x.org") == [
        row["mails"][0],
        {"mail": "c@x.org", "main": True},
    ]
    assert OTHER_NAMES.written({}, "c@x.org") == [{"mail": "c@x.org", "main": True, "kind": "work"}]


def test_entries_may_be_plain_texts_of_which_the_first_is_primary() -> None:
    emails, phones = Several("emails", "email", value=""), Several("phones", "phone", value="")
    row = {"emails": ["a@x.org", "b@x.org", None], "phones": ["+491701"]}
    assert (emails.text(row), emails.joined(row)) == ("a@x.org", "a@x.org;b@x.org")
    assert emails.written(row, "c@x.org") == ["c@x.org", "b@x.org"]
    assert emails.written(row, "B@x.org") == ["b@x.org", "a@x.org"]
    assert emails.written(row, "") == ["b@x.org"]
    assert emails.written({}, "c@x.org") == ["c@x.org"]
    assert phones.written(row, "+491702") == ["+491702", "+491701"], "a new phone is added"


def test_malformed_entries_are_skipped() -> None:
    row = {"emails": [None, {"value": 5}, {"value": "a@x.org"}], "phones": "none"}
    assert (EMAIL.text(row), PHONE.texts(row), PHONE.written(row, "")) == ("a@x.org", [], [])
