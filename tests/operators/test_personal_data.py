"""What support reads of a message: why something failed, and nothing of a person."""

from __future__ import annotations

from time import process_time

import pytest

from crmhub.queue.hidden_values import HIDDEN, hide_in_text

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


def test_a_value_in_a_message_is_hidden_whole_in_any_case_and_only_as_a_word():
    request = {"a": "İzmir Straße", "b": "x-", "c": "-" * 300, "d": "o'neil"}
    for text, shown in (
        ("at İzmir STRASSE, İZMIR", f"at {HIDDEN} STRASSE, {HIDDEN}"),
        ("x-ray and x-", f"x-ray and {HIDDEN}"),
        ("-" * 700, HIDDEN + "-" * 100),
        ("O'NEIL.", f"{HIDDEN}."),
        ("said “Ann and more", f"said {HIDDEN}"),
        ("a@b.c,d@e.f", HIDDEN + HIDDEN),
    ):
        assert hide_in_text(text, request) == shown


def test_hiding_takes_time_in_proportion_to_the_length():
    for atom in ("a", "“", "1 ", "a@", "'", "a'", "a-", "-", "ab ", "«"):
        request = {"long": atom * 20_000, "words": " ".join(atom * n for n in range(1, 7))}
        times = []
        for length in (1_000, 40_000):
            text = (atom * length)[:length]
            runs = []
            for _ in range(3):
                began = process_time()
                hide_in_text(text, request)
                runs.append(process_time() - began)
            times.append(min(runs))
        # In proportion: 40 times as long; with the square: 1,600 times.
        assert times[1] < 800 * max(times[0], 1e-4), atom
