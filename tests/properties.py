"""Properties of a test's own, beside those every account starts with."""

from __future__ import annotations

from collections.abc import Sequence

from crmhub.actions.hub import Hub
from crmhub.db import Connection
from crmhub.records import catalogue
from crmhub.records.catalogue import Property
from crmhub.records.kinds import KINDS
from crmhub.records.values import Option
from tests.clients import Client


def define(
    hub: Hub,
    client: Client,
    resource: str,
    name: str,
    type: str = "string",
    *,
    options: Sequence[str | tuple[str, str]] = (),
    required: bool = False,
    unique: bool = False,
    read_only: bool = False,
) -> Property:
    """Define a property in the client's account; an option is a value or (value, label)."""
    chosen = [(each, each) if isinstance(each, str) else each for each in options]
    new = Property(
        0,
        name=name,
        label=name,
        type=type,
        required=required,
        unique=unique,
        read_only=read_only,
        options=tuple(Option(value, label) for value, label in chosen),
    )

    def work(tx: Connection) -> Property:
        catalogue.change(tx, client.account.id)
        return catalogue.add_property(tx, client.account.id, KINDS[resource], new)

    added = hub.database.transact(work)
    hub.directory.forget(client.account.id)
    return added
