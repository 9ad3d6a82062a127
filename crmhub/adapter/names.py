"""Names of properties: the hub's, and those of a CRM that names some of them otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from crmhub.adapter.errors import Problem, Rejected


class Names:
    """The names of one kind of record's properties: the hub's to the CRM's, where they differ.

    Every other name is the CRM's own; a caller may use the CRM's name of a mapped property, too.
    """

    def __init__(self, theirs: Mapping[str, str] = {}) -> None:
        self._theirs = theirs
        self._ours = {name: ours for ours, name in theirs.items()}

    def theirs(self, name: str) -> str:
        """Return the CRM's name of the property that a caller calls `name`."""
        return self._theirs.get(name, name)

    def ours(self, name: str) -> str:
        """Return the hub's name of the property that the CRM calls `name`."""
        return self._ours.get(name, name)

    @contextmanager
    def translated(self, properties: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """Yield the properties under the CRM's names, for a block that sends them.

        A Rejected of the block gets the names that the caller sent, or the hub's. Raises Rejected
        for a property that was sent under both names.
        """
        sent = {self.theirs(name): name for name in properties}
        twice = properties.keys() - sent.values()
        if twice:
            raise Rejected([Problem(name, "it is sent under two names") for name in sorted(twice)])
        try:
            yield {theirs: properties[name] for theirs, name in sent.items()}
        except Rejected as exc:
            exc.rename(lambda name: sent.get(name) or self.ours(name))
            raise
