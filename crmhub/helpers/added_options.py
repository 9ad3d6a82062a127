"""Values that add options to those that a contact has, such as ";b"."""

from __future__ import annotations

from collections.abc import Mapping

from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Unsupported


def adds_options(value: str) -> bool:
    return value.lstrip().startswith(";")


def without_added(properties: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if not adds_options(value)}


def with_held(
    account: Account, adapter: Adapter, contact_id: str, properties: Mapping[str, str]
) -> dict[str, str]:
    """Put the contact's options before added ones, unless the CRM describes nothing."""
    added = [name for name, value in properties.items() if adds_options(value)]
    if not added or not adapter.remote:
        return dict(properties)
    rules = account.connection.field_map.of("contacts")
    try:
        described = adapter.describe("contacts")
    except Unsupported:
        return dict(properties)
    several = {one.name for one in described if one.type == "multi_enumeration"}
    names = [name for name in added if rules.crm_name(name) in several]
    held = adapter.get_contact(contact_id, names).properties if names else {}
    joined = {name: held.get(name, "") + properties[name].strip() for name in names}
    return {**properties, **joined}
