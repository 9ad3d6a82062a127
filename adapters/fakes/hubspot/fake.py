"""The Python interface of the fake HubSpot: the records, and changes made in HubSpot itself."""

from __future__ import annotations

from typing import Any

from adapters.fakes.hubspot.definitions import definition
from adapters.fakes.hubspot.portal import Rules
from adapters.fakes.hubspot.service import Options, Service
from adapters.fakes.hubspot.writing import update


class FakeHubSpot(Service):
    """A fake HubSpot on its own port; `with FakeHubSpot() as fake:` starts and stops it.

    The records survive a stop: after another `start()` they are served on the same port.
    """

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options or Options())

    @property
    def token(self) -> str:
        """The static access token, which is valid until `expire_tokens` is called."""
        return self.tokens.static

    @property
    def contacts(self) -> dict[str, dict[str, str]]:
        """The properties of all contacts that are not archived, by contact id."""
        return self.records("contacts")

    @property
    def deals(self) -> dict[str, dict[str, str]]:
        """The properties of all deals that are not archived, by deal id."""
        return self.records("deals")

    @property
    def tickets(self) -> dict[str, dict[str, str]]:
        """The properties of all tickets that are not archived, by ticket id."""
        return self.records("tickets")

    def add_contact(self, **properties: str) -> str:
        """Create a contact that searches find at once, without lag; return its id."""
        return self.add("contacts", properties)

    def set(self, kind: str, id_: str, **properties: str) -> None:
        """Change properties of a record, as a HubSpot user would in the web app."""
        with self.lock:
            update(self.portal, self.portal.load(kind, id_), properties)

    def archive(self, kind: str, id_: str) -> None:
        """Archive a record, as a HubSpot user would in the web app."""
        with self.lock:
            self.portal.remove(self.portal.load(kind, id_))

    def define(self, kind: str, name: str, type_: str = "string", **more: Any) -> None:
        """Define a custom property of the type `type_` for a kind of record.

        `more` are further arguments of the function `definitions.definition`.
        """
        with self.lock:
            group = next(iter(self.portal.groups[kind]))
            made = definition(name, name, type_, group=group, own=False, **more)
            self.portal.definitions[kind][name] = made

    def require(self, kind: str, *names: str) -> None:
        """Make the properties `names` required in every record of a kind."""
        with self.lock:
            self.portal.rules[kind] = Rules(required=names)
