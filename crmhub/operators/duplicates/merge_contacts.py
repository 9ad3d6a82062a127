"""Merge two contacts of the hub's own records, and undo a merge.

A merge is one transaction. The kept contact gets the values shown in the preview, and the links,
conversations and enrolments of the other contact, which is archived. From then on, the other's id,
its ids `hub-…`, its email (if the kept contact has a different one) and its waiting actions lead to
the kept contact.

An unmerge, for 30 days, restores the archived contact with its values, links to records that still
exist (see `records.merging.unmerge`), and everything that the merge moved. The kept contact gets
back its former values unless they have changed since. Whatever was written since stays with it.
Both contacts keep the sticky assignments (`+sticky`) of the merged contact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import Conflict
from crmhub.helpers import enrolments, sticky_assignments
from crmhub.helpers.enrolments import Moved
from crmhub.hub import Hub, in_transaction
from crmhub.identity import merged_contacts, possible_duplicates
from crmhub.identity.bindings import LONGEST
from crmhub.identity.merged_contacts import Joined
from crmhub.identity.possible_duplicates import Pair, State
from crmhub.operators.duplicates.compare_contacts import choose, count_moves, is_mergeable
from crmhub.properties import catalogue as catalogues
from crmhub.properties.kinds import CONTACTS
from crmhub.properties.validation import DuplicateValue
from crmhub.records.associations import Links
from crmhub.records.merging import Merge, Undo
from crmhub.records.models import Record


@in_transaction
def merge(
    hub: Hub,
    tx: Connection,
    account: Account,
    contact_id: str,
    other_id: str,
    *,
    version: str,
    by: Author,
    keep: str = "",
    take: Mapping[str, str] | None = None,
) -> Pair:
    """`version`: that of the preview with the same `keep` and `take`, which are as for `choose`.

    Raises NotFound; Semantic if `keep` or `take` is invalid, or a required value would be missing;
    Conflict if a contact was changed since or deleted, or is not the hub's own record.
    """
    pair = _lock_pair(tx, account, contact_id, other_id)
    choice = choose(hub, account, pair, keep=keep, take=take or {})
    if version != choice.version:
        raise Conflict(
            "One of the contacts was changed since the preview. Nothing was merged; look at"
            " the preview again."
        )
    kept, other_contact = choice.kept, choice.other
    versions = (kept.version, other_contact.version)
    asked = Merge(kept.id, other_contact.id, choice.taken, versions)
    return _merge_pair(tx, hub, account, pair, kept, other_contact, asked, by)


def merge_by_ids(tx: Connection, hub: Hub, account: Account, asked: Merge, *, by: Author) -> Record:
    """Return the kept contact. The pair need not be listed; from now on it is, as merged.

    Raises as `RecordStore.merge`.
    """
    ids = (str(asked.kept_id), str(asked.other_id))
    _lock_contacts(tx, account, *ids)
    kept, other = (hub.records.get(account, CONTACTS, int(id)) for id in ids)
    pair = possible_duplicates.find_or_add(tx, account, *ids)
    _merge_pair(tx, hub, account, pair, kept, other, asked, by)
    return hub.records.get(account, CONTACTS, kept.id)


@in_transaction
def unmerge(
    hub: Hub, tx: Connection, account: Account, contact_id: str, other_id: str, *, by: Author
) -> Pair:
    """Return the pair, which is open again.

    Raises NotFound, and Conflict if the pair is not merged, the merge is older than 30 days, a
    contact was deleted or merged again since, or a third contact now has a unique value to restore.
    """
    pair = _lock_pair(tx, account, contact_id, other_id)
    _require_undoable(pair)
    _unmerge_contacts(tx, hub, account, pair)
    opened = replace(
        pair,
        state="open",
        decided_at=0,
        decided_by="",
        kept_id="",
        merged_id="",
        undoable=False,
    )
    possible_duplicates.update(tx, account, opened)
    after = {"shares": list(pair.shares)}
    audit.note(tx, by, "unmerge", "duplicate", "", account_id=account.id, after=after)
    return opened


def _lock_pair(tx: Connection, account: Account, one: str, other: str) -> Pair:
    """Lock both contacts of a pair and their actions; raises NotFound."""
    _lock_contacts(tx, account, one, other)
    return possible_duplicates.find(tx, account, one, other, lock=True)


def _lock_contacts(tx: Connection, account: Account, one: str, other: str) -> None:
    # A contact may have very many links, conversations and actions.
    tx.take_time()
    # In the same order as elsewhere, so that few transactions deadlock.
    catalogues.hold(tx, account.id)
    merged_contacts.hold_actions(tx, account, (one, other))
    merged_contacts.hold_contacts(tx, account, (one, other))


def _merge_pair(
    tx: Connection,
    hub: Hub,
    account: Account,
    pair: Pair,
    kept: Record,
    other: Record,
    asked: Merge,
    by: Author,
) -> Pair:
    """Merge records, bindings, enrolments and pairs; store the data for `_unmerge_contacts`."""
    moves = count_moves(tx, account, kept, other)
    merged = replace(
        pair,
        state="merged",
        decided_at=now_ms(),
        decided_by=by.name,
        kept_id=str(kept.id),
        merged_id=str(other.id),
        undoable=True,
    )
    undo = hub.records.merge(account, CONTACTS, asked)
    ids = (merged.merged_id, merged.kept_id)
    joined = merged_contacts.join(tx, account, *ids)
    _share_assignments(tx, account, *ids, joined)
    stored = {
        "record": asdict(undo),
        "bindings": asdict(joined),
        "enrolments": asdict(enrolments.move(tx, account, *ids)),
        **possible_duplicates.take_over(tx, account, merged),
    }
    email = _released_email(kept, other, undo)
    possible_duplicates.update(tx, account, merged, email=email, undo=stored)
    taken = undo.values if asked.take is None else asked.take
    after = {"shares": list(pair.shares), "taken": sorted(taken), "moved": moves}
    audit.note(tx, by, "merge", "duplicate", "", account_id=account.id, after=after)
    return merged


def _share_assignments(
    tx: Connection, account: Account, merged_id: str, kept_id: str, joined: Joined
) -> None:
    """Copy the merged contact's sticky assignments, unless the kept one has its own."""
    here = account.connection.id
    into = sticky_assignments.of_person(here, joined.person)
    for person in sorted({*joined.persons.values()} - {joined.person}):
        sticky_assignments.share(tx, account, sticky_assignments.of_person(here, person), into)
    of, to = (sticky_assignments.of_id(here, id) for id in (merged_id, kept_id))
    sticky_assignments.share(tx, account, of, to)


def _released_email(kept: Record, other: Record, undo: Undo) -> str | None:
    """Return the email that the merge drops, None for one that is too long to be stored."""
    emails = (kept.properties.get("email", ""), other.properties.get("email", ""))
    _, email = undo.values.get("email", ("", emails[0]))
    released = [value for value in emails if value and value != email]
    # A kept contact without an email must not be found by an email that was not chosen for it.
    return released[0] if email and released and len(released[0]) <= LONGEST else None


def _require_undoable(pair: Pair) -> None:
    if pair.state != "merged":
        raise Conflict("The contacts are not merged.")
    if not pair.merged_id or not pair.decided_by:
        raise Conflict("The contacts were merged in their CRM. Only that can undo it.")
    if pair.kept_id not in pair.ids:
        raise Conflict(
            "Contact %(merged_id)s was merged into contact %(kept_id)s since. Unmerge"
            " these two first.",
            merged_id=pair.but(pair.merged_id),
            kept_id=pair.kept_id,
        )
    if not pair.unmerge_until:
        raise Conflict("The merge is older than 30 days and cannot be undone any more.")


def _unmerge_contacts(tx: Connection, hub: Hub, account: Account, pair: Pair) -> None:
    undo = possible_duplicates.undo_of(tx, account, pair)
    ids = (pair.merged_id, pair.kept_id)
    record = Undo.of(undo["record"])
    stay = _shared_links(tx, account, pair, record.moved)
    try:
        hub.records.unmerge(
            account, CONTACTS, int(pair.kept_id), int(pair.merged_id), record, stay=stay
        )
    except DuplicateValue as exc:
        raise Conflict(
            "Contact %(existing_id)s has the same %(name)s by now. Change it there, then unmerge.",
            existing_id=exc.existing_id,
            name=exc.name,
        ) from exc
    merged_contacts.part(tx, account, *ids, Joined(**undo["bindings"]))
    enrolments.move_back(tx, account, *ids, Moved(**undo["enrolments"]))
    possible_duplicates.give_back(
        tx,
        account,
        pair,
        undo,
        exists=lambda id: bool(hub.records.read(account, CONTACTS, [int(id)])),
    )


def _shared_links(tx: Connection, account: Account, pair: Pair, moved: Links) -> Links:
    """Return the links that stay with the kept contact after an unmerge.

    A link in `moved` stays if a third contact that was merged into the same one also had it. It is
    then stored as moved by that merge, so that only its unmerge removes it.
    """
    stay: Links = {}
    for other in possible_duplicates.merges_into(tx, account, pair.kept_id):
        if other.ids == pair.ids:
            continue
        undo = possible_duplicates.undo_of(tx, account, other)
        links, got = undo["record"]["links"], undo["record"]["moved"]
        for name, ids in moved.items():
            if shared := {*ids} & {*links.get(name, ())} - {*stay.get(name, ())}:
                stay[name] = sorted({*stay.get(name, ()), *shared})
                got[name] = sorted({*got.get(name, ()), *shared})
        possible_duplicates.set_undo(tx, account, other, undo)
    return stay


@in_transaction
def dismiss(
    hub: Hub,
    tx: Connection,
    account: Account,
    one: str,
    other: str,
    *,
    by: Author,
    merged: bool = False,
) -> Pair:
    """Close a pair as different persons or, with `merged`, as merged in their CRM.

    Raises NotFound; Conflict if the hub has merged the pair, or if `merged` is given for the hub's
    own records.
    """
    pair = possible_duplicates.find(tx, account, one, other, lock=True)
    state: State = "merged" if merged else "dismissed"
    if merged and is_mergeable(hub, account):
        raise Conflict("These contacts are the hub's own records; merge them here.")
    if pair.state == state:
        return pair
    if pair.merged_id:
        if pair.unmerge_until:
            raise Conflict("The contacts are merged; unmerge them first.")
        raise Conflict("The contacts are merged.")
    closed = replace(pair, state=state, decided_at=now_ms(), decided_by=by.name)
    possible_duplicates.update(tx, account, closed)
    after = {"shares": list(pair.shares), "state": state}
    audit.note(tx, by, "dismiss", "duplicate", "", account_id=account.id, after=after)
    return closed
