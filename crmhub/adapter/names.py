from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from crmhub.adapter.errors import Problem, Rejected


class Names:
    """The hub's names to the CRM's, where they differ; callers may use the CRM's, too."""

    def __init__(self, theirs: Mapping[str, str] = {}) -> None:
        self._theirs = theirs
        self._ours = {name: ours for ours, name in theirs.items()}

    def theirs(self, name: str) -> str:
        return self._theirs.get(name, name)

    def ours(self, name: str) -> str:
        return self._ours.get(name, name)

    @contextmanager
    def translated(self, properties: Mapping[str, str]) -> Iterator[dict[str, str]]:
        """Problems get the names that were sent; Rejected if one was sent under both names."""
        sent = {self.theirs(name): name for name in properties}
        twice = properties.keys() - sent.values()
        if twice:
            raise Rejected([Problem(name, "it is sent under two names") for name in sorted(twice)])
        try:
            yield {theirs: properties[name] for theirs, name in sent.items()}
        except Rejected as exc:
            exc.rename(lambda name: sent.get(name) or self.ours(name))
            raise
