"""Opening an account: everything it needs to be called, in one transaction."""

from __future__ import annotations

from crmhub import audit
from crmhub.accounts import changes
from crmhub.accounts.accounts import Account
from crmhub.accounts.changes import IssuedIds
from crmhub.adapter import BadConfig
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.errors import Semantic
from crmhub.hub import Hub
from crmhub.properties import catalogue


def open_account(
    hub: Hub,
    *,
    name: str,
    client_id: str | None = None,
    adapter: str = "local",
    plan: str = "default",
    by: Author,
) -> tuple[Account, IssuedIds]:
    """Open an account with a key, webhook ids and the catalogue every account starts with.

    Raises Semantic for an unknown plan, an adapter that is not installed or cannot be loaded, or
    a name or client id that cannot be one, and Conflict when the client id is taken.
    """
    try:
        hub.registry.load(adapter)
    except BadConfig as exc:
        raise Semantic(f"adapter: {exc.message}") from exc

    def work(tx: Connection) -> tuple[Account, IssuedIds]:
        account, issued = changes.open_account(
            tx, name=name, client_id=client_id, adapter=adapter, plan=plan, plans=hub.plans
        )
        catalogue.fill(tx, account.id)
        after = {"name": account.name, "plan": plan, "adapter": adapter}
        audit.note(tx, by, "open", "account", account.client_id, account_id=account.id, after=after)
        return account, issued

    account, issued = hub.database.transact(work)
    hub.directory.forget(account.id)
    return account, issued
