"""What support reads of a message: why something failed, and nothing of a person."""

from __future__ import annotations

import pytest

from crmhub.operations.personal_data import HIDDEN, hide_in_text

REQUEST = {
    "name": "Ann de la Cruz",
    "email": "ann@example.com",
    "phone": "0170 123",
    "properties": {"city": "Bad Homburg", "rooms": 3, "message": "Please call me " * 9},
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("HubSpot answers 403: the token lacks the scope a.b.write.", None),
        ("dealstage: there is no such stage", None),
        ("Couldn't reach it; it isn't there.", None),
        ("No contact ann@example.com.", f"No contact {HIDDEN}"),
        ("Duplicate of Cruz, ANN (bad homburg)", f"Duplicate of {HIDDEN}, {HIDDEN} ({HIDDEN})"),
        ("Annex 3 of the contract", "Annex 3 of the contract"),
        ("Is bob.lee@corp.example known?", f"Is {HIDDEN} known?"),
        ("'Bo Lee' is no name, nor is \"Cy\" or “Di”", f"{HIDDEN} is no name, nor is {HIDDEN} or"
         f" {HIDDEN}"),
        ("Call +49 (170) 555-1234 now", f"Call {HIDDEN} now"),
        ("HubSpot answers 429 after 12 s", None),
        ("", None),
    ],
)  # fmt: skip
def test_what_is_or_looks_like_a_value_is_hidden(text, shown):
    assert hide_in_text(text, REQUEST) == (text if shown is None else shown)


def test_a_message_about_no_action_hides_what_looks_like_a_value():
    assert hide_in_text("Ask ops@crm.example, 030 123456-78") == f"Ask {HIDDEN}, {HIDDEN}"
