"""Two contacts of the hub's own records become one, and two again.

A merge, in one transaction: the kept contact gets the values that the preview shows and the links,
conversations and enrolments of the other one, which is archived. Whatever names the other one from
then on leads to the kept one: its id, its hub ids, its email where the kept contact has another
one, and actions that wait.

An unmerge, within 30 days, restores the archived contact with its id, its time of creation, its
values and its links to records that still exist (`records.merging.unmerge`), and the conversations,
enrolments and pairs that the merge moved. The kept contact loses the links that it got, and gets
its former values back where nobody has changed them since. What was written to it since the merge
stays there: values, links, new conversations. So does a sticky assignment (`+sticky`), which both
contacts have from the merge on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import Conflict
from crmhub.helpers import get_type, sticky_assignments
from crmhub.helpers.get_type import Moved
from crmhub.hub import Hub
from crmhub.identity import merged_contacts, possible_duplicates
from crmhub.identity.bindings import LONGEST
from crmhub.identity.merged_contacts import Joined
from crmhub.identity.possible_duplicates import Pair, State
from crmhub.operations.compare_contacts import Choice, choose, count_moves, is_mergeable
from crmhub.properties import catalogue as catalogues
from crmhub.properties.kinds import CONTACTS
from crmhub.properties.validation import DuplicateValue
from crmhub.records.associations import Links
from crmhub.records.merging import Merge, Undo


def merge(
    hub: Hub,
    account: Account,
    one: str,
    other: str,
    *,
    version: str,
    by: Author,
    keep: str = "",
    take: Mapping[str, str] | None = None,
) -> Pair:
    """Merge a pair as its preview with the same `keep` and `take` shows; return it as it is then.

    `version` is that of the preview. Raises NotFound for the pair, Semantic for `keep`, `take` and
    a value that a contact must have, and Conflict when either contact was changed since the
    preview or was deleted, or is none of the hub's own records.
    """

    def work(tx: Connection) -> Pair:
        _hold(tx, account, one, other)
        pair = possible_duplicates.locked(tx, account, one, other)
        choice = choose(hub, account, pair, keep=keep, take=take or {})
        if version != choice.version:
            raise Conflict(
                "One of the contacts was changed since the preview. Nothing was merged; look at"
                " the preview again."
            )
        moves = count_moves(tx, account, choice.kept, choice.other)
        merged = replace(
            pair,
            state="merged",
            decided_at=now_ms(),
            decided_by=by.name,
            kept_id=str(choice.kept.id),
            merged_id=str(choice.other.id),
            undoable=True,
        )
        undo = _merge(hub, tx, account, merged, choice)
        possible_duplicates.update(tx, account, merged, email=_email_out_of_use(choice), undo=undo)
        after = {"shares": list(pair.shares), "taken": sorted(choice.taken), "moved": moves}
        audit.note(tx, by, "merge", "duplicate", "", account_id=account.id, after=after)
        return merged

    return hub.database.transact(work)


def unmerge(hub: Hub, account: Account, one: str, other: str, *, by: Author) -> Pair:
    """Undo a merge of the last 30 days, as the module's docstring says; the pair is open then.

    Raises NotFound for the pair, and Conflict when it is not merged, the time is over, either
    contact was deleted or merged into a further one since, or another contact has a unique value
    of theirs by now.
    """

    def work(tx: Connection) -> Pair:
        _hold(tx, account, one, other)
        pair = possible_duplicates.locked(tx, account, one, other)
        _demand_undoable(pair)
        undo = possible_duplicates.undo_of(tx, account, pair)
        _unmerge(hub, tx, account, pair, undo)
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

    return hub.database.transact(work)


def _hold(tx: Connection, account: Account, one: str, other: str) -> None:
    # A contact may have very many links, conversations and actions.
    tx.take_time()
    # In the order in which others take these locks.
    catalogues.hold(tx, account.id)
    merged_contacts.hold_actions(tx, account, (one, other))
    merged_contacts.hold_contacts(tx, account, (one, other))


def _merge(
    hub: Hub, tx: Connection, account: Account, merged: Pair, choice: Choice
) -> dict[str, Any]:
    """Merge the contacts of a pair; return what `_unmerge` needs."""
    kept, other = choice.kept, choice.other
    asked = Merge(kept.id, other.id, choice.taken, (kept.version, other.version))
    undo = hub.records.merge(account, CONTACTS, asked)
    ids = (merged.merged_id, merged.kept_id)
    joined = merged_contacts.join(tx, account, *ids)
    _share_numbers(tx, account, *ids, joined)
    return {
        "record": asdict(undo),
        "bindings": asdict(joined),
        "enrolments": asdict(get_type.move(tx, account, *ids)),
        **possible_duplicates.take_over(tx, account, merged),
    }


def _share_numbers(
    tx: Connection, account: Account, merged_id: str, kept_id: str, joined: Joined
) -> None:
    """Keep the merged contact's sticky assignments for the kept one, where that has none."""
    here = account.connection.id
    into = sticky_assignments.of_person(here, joined.person)
    for person in sorted({*joined.persons.values()} - {joined.person}):
        sticky_assignments.share(tx, account, sticky_assignments.of_person(here, person), into)
    of, to = (sticky_assignments.of_id(here, id) for id in (merged_id, kept_id))
    sticky_assignments.share(tx, account, of, to)


def _email_out_of_use(choice: Choice) -> str | None:
    """Return the email that the kept contact has lost or not got, None without one."""
    email = choice.properties.get("email")
    both = (choice.kept.properties.get("email"), choice.other.properties.get("email"))
    others = [one for one in both if one and one != email]
    # Without an email of its own the kept contact could be found by one that it must not get.
    return others[0] if email and others and len(others[0]) <= LONGEST else None


def _demand_undoable(pair: Pair) -> None:
    """Raise Conflict when the merge of a pair cannot be undone."""
    if pair.state != "merged":
        raise Conflict("The contacts are not merged.")
    if not pair.merged_id or not pair.decided_by:
        raise Conflict("The contacts were merged in their CRM. Only that can undo it.")
    if pair.kept_id not in pair.ids:
        raise Conflict(
            f"Contact {pair.but(pair.merged_id)} was merged into contact {pair.kept_id} since."
            " Unmerge these two first."
        )
    if not pair.unmerge_until:
        raise Conflict("The merge is older than 30 days and cannot be undone any more.")


def _unmerge(
    hub: Hub, tx: Connection, account: Account, pair: Pair, undo: Mapping[str, Any]
) -> None:
    ids = (pair.merged_id, pair.kept_id)
    record = Undo.of(undo["record"])
    stay = _shared_links(tx, account, pair, record.moved)
    try:
        hub.records.unmerge(
            account, CONTACTS, int(pair.kept_id), int(pair.merged_id), record, stay=stay
        )
    except DuplicateValue as exc:
        raise Conflict(
            f"Contact {exc.existing_id} has the same {exc.name} by now. Change it there, then"
            " unmerge."
        ) from exc
    merged_contacts.part(tx, account, *ids, Joined(**undo["bindings"]))
    get_type.move_back(tx, account, *ids, Moved(**undo["enrolments"]))
    possible_duplicates.give_back(
        tx,
        account,
        pair,
        undo,
        exists=lambda id: bool(hub.records.read(account, CONTACTS, [int(id)])),
    )


def _shared_links(tx: Connection, account: Account, pair: Pair, moved: Links) -> Links:
    """Return those of the moved links that other contacts merged into the kept one had, too.

    From now on the kept contact has each of them of such a merge.
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


def dismiss(
    hub: Hub, account: Account, one: str, other: str, *, by: Author, merged: bool = False
) -> Pair:
    """Close a pair as two different persons; with `merged` as one that was merged in its CRM.

    A pair that is closed so already stays as it is. Raises NotFound for the pair, Conflict for one
    that is merged here, or with `merged` is to be merged here.
    """

    def work(tx: Connection) -> Pair:
        pair = possible_duplicates.locked(tx, account, one, other)
        state: State = "merged" if merged else "dismissed"
        if merged and is_mergeable(hub, account):
            raise Conflict("These contacts are the hub's own records; merge them here.")
        if pair.state == state:
            return pair
        if pair.merged_id:
            first = "; unmerge them first" if pair.unmerge_until else ""
            raise Conflict(f"The contacts are merged{first}.")
        closed = replace(pair, state=state, decided_at=now_ms(), decided_by=by.name)
        possible_duplicates.update(tx, account, closed)
        after = {"shares": list(pair.shares), "state": state}
        audit.note(tx, by, "dismiss", "duplicate", "", account_id=account.id, after=after)
        return closed

    return hub.database.transact(work)
