"""Merge and restore records of the hub by their ids, as the public API does.

Contacts to which helpers' calls lead are merged as an operator merges a pair, who can unmerge them.
Of a merge of companies nothing is stored: the merged company can be restored like any other.
"""

from __future__ import annotations

from collections.abc import Mapping

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.errors import Conflict, Semantic
from crmhub.hub import Hub, in_transaction
from crmhub.identity import merged_contacts
from crmhub.operators.duplicates import merge_contacts
from crmhub.operators.duplicates.compare_contacts import is_mergeable
from crmhub.properties.kinds import CONTACTS, Kind
from crmhub.records.merging import Merge
from crmhub.records.models import Record


@in_transaction
def merge(
    hub: Hub,
    tx: Connection,
    account: Account,
    kind: Kind,
    kept_id: int,
    other_id: int,
    *,
    change: Mapping[str, str],
    by: Author,
) -> Record:
    """Return the kept record: its values, blank ones filled from the other, then the `change`.

    Raises Semantic for the same id twice, and as `RecordStore.merge`.
    """
    if kept_id == other_id:
        raise Semantic("merge: is the same as keep; send the ids of two records.")
    asked = Merge(kept_id, other_id, change=change)
    if kind is CONTACTS and is_mergeable(hub, account):
        return merge_contacts.merge_by_ids(tx, hub, account, asked, by=by)
    hub.records.merge(account, kind, asked)
    ids = {"merged": other_id}
    audit.note(
        tx, by, "merge", "records", f"{kind.name}/{kept_id}", account_id=account.id, after=ids
    )
    return hub.records.get(account, kind, kept_id)


@in_transaction
def restore(hub: Hub, tx: Connection, account: Account, kind: Kind, id: int) -> Record:
    """Raises as `RecordStore.restore`, and Conflict for a merged contact."""
    tx.hold(account.id, exclusive=True)
    if kind is CONTACTS:
        kept_id = merged_contacts.merged_into(tx, account, str(id))
        if kept_id != str(id):
            raise Conflict(
                "The contact %(id)s was merged into contact %(kept_id)s, which bots'"
                " calls with its id use. An operator can unmerge them for 30 days.",
                id=id,
                kept_id=kept_id,
            )
    return hub.records.restore(account, kind, id)
