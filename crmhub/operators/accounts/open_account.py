"""Open an account with its API key, webhook ids and properties, in one transaction."""

from __future__ import annotations

from crmhub import audit
from crmhub.accounts import changes
from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.hub import Hub, in_transaction
from crmhub.operators.crm.set_crm import load_adapter
from crmhub.properties import catalogue


@in_transaction
def open_account(
    hub: Hub,
    tx: Connection,
    *,
    name: str,
    client_id: str | None = None,
    adapter: str = "local",
    plan: str = "default",
    by: Author,
) -> tuple[Account, IssuedIds]:
    """Return the account, and its key, ids and secret as plain text.

    Without `client_id` it is made from `name`. Raises Semantic for an invalid plan, adapter, name
    or client id; Conflict if another account has the client id.
    """
    load_adapter(hub, adapter)
    account, issued = changes.open_account(
        tx, name=name, client_id=client_id, adapter=adapter, plan=plan, plans=hub.plans
    )
    catalogue.fill(tx, account.id)
    after = {"name": account.name, "plan": plan, "adapter": adapter}
    audit.note(tx, by, "open", "account", account.client_id, account_id=account.id, after=after)
    hub.forget_after_commit(account.id)
    return account, issued
