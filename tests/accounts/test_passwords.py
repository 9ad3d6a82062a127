"""Passwords: what is stored, what fits, and what too many at once do."""

from __future__ import annotations

import pytest

from crmhub.errors import Semantic, Unavailable
from crmhub.users import passwords


def test_a_password_fits_what_is_stored_of_it_and_no_other_does():
    stored = passwords.to_store("correct horse battery")
    # As slow as OWASP's password storage cheat sheet asks for.
    assert stored.startswith("scrypt$15$8$3$")
    assert passwords.fits("correct horse battery", stored)
    assert not passwords.fits("correct horse batterY", stored)
    assert not passwords.fits("", stored)


def test_the_same_password_is_stored_differently_each_time(quick_passwords):
    assert passwords.to_store("correct horse battery") != passwords.to_store(
        "correct horse battery"
    )


@pytest.mark.parametrize("password", ["", "elevenchars", "x" * 1001])
def test_a_password_has_12_to_1000_characters(password):
    with pytest.raises(Semantic, match=f"it has {len(password)} characters"):
        passwords.to_store(password)


def test_as_much_is_computed_for_nobody(monkeypatch):
    worked = []
    scrypt = passwords.hashlib.scrypt
    monkeypatch.setattr(
        passwords.hashlib, "scrypt", lambda *args, **how: worked.append(how) or scrypt(*args, **how)
    )
    stored = passwords.to_store("correct horse battery")
    assert not passwords.fits("wrong horse battery", stored)
    assert not passwords.fits("wrong horse battery", None)
    how = [{name: value for name, value in one.items() if name != "salt"} for one in worked]
    assert how[0] == how[1] == how[2]


def test_a_crowd_that_signs_in_is_told_to_come_back(monkeypatch):
    monkeypatch.setattr(passwords, "_PATIENCE_S", 0.01)
    with passwords._AT_ONCE, passwords._AT_ONCE, pytest.raises(Unavailable, match="at once"):
        passwords.fits("correct horse battery", None)
