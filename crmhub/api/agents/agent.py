from __future__ import annotations

from dataclasses import dataclass

from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.hub import Hub
from crmhub.search_limits import SearchLimit


@dataclass(frozen=True, slots=True)
class Agent:
    """`author`: the API key or the command. `counted`: the rate limit counted the call already."""

    hub: Hub
    account: Account
    scopes: frozenset[str]
    author: Author
    counted: bool = False

    @property
    def action_author(self) -> str:
        return self.author.id or self.author.name

    def search_limit(self) -> SearchLimit:
        return SearchLimit(self.hub.settings.search_timeout_s)
