"""The names of the persons that actions are about, for the console's pages.

All names that activity pages show come from here; what a bot sent is shown by the page of its
action.
"""

from __future__ import annotations

from collections.abc import Sequence

from crmhub.api.http.authentication import hub
from crmhub.identity import contact_names
from crmhub.identity.contact_names import ContactName
from crmhub.journal.action_queries import Summary


def names_of(actions: Sequence[Summary]) -> dict[str, ContactName]:
    """Return the names of the contacts of actions, by action id.

    An action whose contact has no known name is missing.
    """
    keys = {one.id: (one.account_id, one.connection_id, one.hub_id) for one in actions}
    with hub().database.reading() as db:
        found = contact_names.names_of(db, keys.values())
    return {id: found[key] for id, key in keys.items() if key in found}
