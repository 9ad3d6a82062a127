"""Leads of adapters' tests."""

from __future__ import annotations

from typing import Any

from crmhub.adapter.matching import Lead

_OF_THE_LEAD = ("strict", "mark", "email_id", "phone_id", "contact_id")


def person(**values: Any) -> Lead:
    """Return a lead with these values, its email and phone among them."""
    own = {name: values.pop(name) for name in _OF_THE_LEAD if name in values}
    return Lead(values, email=values.get("email", ""), phone=values.get("phone", ""), **own)
