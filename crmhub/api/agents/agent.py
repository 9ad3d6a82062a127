"""The agent of a call: the account that it works in, its scopes, and how its writes are signed."""

from __future__ import annotations

from dataclasses import dataclass

from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.hub import Hub
from crmhub.search_limits import SearchLimit


@dataclass(frozen=True, slots=True)
class Agent:
    """The caller of a tool.

    `author`: the API key, or the command at whose standard input the agent writes. `counted`:
    whether the account's rate limit has counted the call already.
    """

    hub: Hub
    account: Account
    scopes: frozenset[str]
    author: Author
    counted: bool = False

    @property
    def action_author(self) -> str:
        """The text by which the journal names the author of an action."""
        return self.author.id or self.author.name

    def search_limit(self) -> SearchLimit:
        """Return the limit for one search of the agent."""
        return SearchLimit(self.hub.settings.search_timeout_s)
