"""The copy of an account's CRM, as operators switch it on and off and see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.adapter import NEEDED_FOR_COPY, BadConfig, Event, features
from crmhub.audit import Author
from crmhub.crm import copied_definitions, watching
from crmhub.database.connection import Connection, now_ms
from crmhub.durations import in_words
from crmhub.errors import Conflict, NotFound, Semantic, Unavailable
from crmhub.hub import Hub, in_transaction
from crmhub.properties import catalogue as catalogues
from crmhub.properties.kinds import BY_CODE, Kind
from crmhub.records import copies
from crmhub.translatable import as_text, translatable

_RETRY_S = 10
_LONGEST_ID = 255
LATE_MS = 15 * 60_000
"""A copy is late if it lacks the CRM's changes, or its load makes no progress, for longer, although
it is due: its pulls fail, or last too long, or nobody begins one."""


@dataclass(frozen=True, slots=True)
class CopyState:
    """The copy of one kind of record; times are ms since 1970, None if not yet.

    `state`: loading, following, ending, or absent if the CRM has no such records. `share`: the part
    of the CRM's records that a load has read, from 0 to 1; None if unknown. `synced_at`: up to when
    the copy has the CRM's changes. `differences`: the records that the last comparison found in the
    CRM or in the copy alone; they were read again. `left_out`: values that the hub cannot hold.
    `failure`: why the last pull failed, or the last comparison archived nothing; else "".
    `loaded`: the records that the present load has read. `warning`: by how long the copy is late,
    and why; "" if it is not late, or the account is disabled.
    """

    kind: str
    state: str
    records: int
    share: float | None
    complete_at: int | None
    synced_at: int | None
    compared_at: int | None
    differences: int | None
    left_out: int
    failure: str
    loaded: int
    warning: str

    @property
    def is_complete(self) -> bool:
        return self.complete_at is not None


def states(hub: Hub, account: Account) -> list[CopyState]:
    """Return the state of each kind of record; none without a copy."""
    with hub.database.reading() as db:
        rows = copies.rows(db, account) or copies.all_rows(db, account)
    counts = hub.records.counts(account) if rows else {}
    now = now_ms()
    return [
        CopyState(
            BY_CODE[row.kind].name,
            row.state,
            counts.get(row.kind, 0),
            copies.share(row),
            row.complete_at,
            row.synced_at,
            row.compared_at,
            row.differences,
            row.left_out,
            row.failure or _doubt(account, row, counts.get(row.kind, 0)),
            row.loaded,
            "" if account.disabled else _warning(row, now),
        )
        for row in rows
    ]


def _warning(row: Any, now: int) -> str:
    kind, before = BY_CODE[row.kind].name, now - LATE_MS
    since = {"loading": row.progress_at, "following": row.synced_at}.get(row.state)
    is_walking = row.state == "following" and row.began_at is not None and row.began_at < before
    # A copy that waits for its next pull is as new as it should be.
    # It may be asked for changes less often than that, so a failure counts from its beginning.
    is_failing = row.failures and (row.progress_at or now) < before
    is_due = is_failing or row.run_at < before or is_walking
    if since is None or since >= before or not is_due:
        return ""
    age = in_words(now - since)
    reason: str = translatable("the CRM's changes are still being read.")
    if row.failure:
        reason = f"{row.failure.removesuffix('.')}."
    elif row.run_at < before:
        reason = translatable("no worker pulls it. Is a worker running?")
    if row.state == "loading":
        return translatable(
            "The load of the %(kind)s has made no progress for %(age)s: %(reason)s",
            kind=as_text(kind),
            age=age,
            reason=reason,
        )
    return translatable(
        "The copy of the %(kind)s is %(age)s behind: %(reason)s",
        kind=as_text(kind),
        age=age,
        reason=reason,
    )


def count_records(hub: Hub, account: Account) -> int:
    """Return the number of records in the copy, archived ones not counted; 0 without a copy."""
    return sum(each.records for each in states(hub, account))


def warnings(hub: Hub, account: Account) -> list[str]:
    """Return a sentence for each kind of record whose copy is late, and for unknown properties."""
    found = states(hub, account)
    late = [each.warning for each in found if each.warning]
    if not found or not all(each.is_complete or each.state == "absent" for each in found):
        return late
    return late + [
        f"mirror_properties: the CRM has no property {name} that can be copied. Correct the name,"
        " or remove it."
        for name in sorted(unknown_properties(hub, account))
    ]


def unknown_properties(hub: Hub, account: Account) -> frozenset[str]:
    """Return the chosen properties that no kind of record has, as the copy last read the CRM's."""
    known = {one.name for kind in copies.ORDER for one in hub.records.catalogue(account, kind)}
    return account.switches.copied_properties - known - copied_definitions.ALWAYS


def _doubt(account: Account, row: Any, records: int) -> str:
    """Return why the last comparison archived nothing, or ""."""
    if row.missing is None:
        return ""
    kind, crm = BY_CODE[row.kind].name, account.connection.adapter
    return (
        f"The comparison found {row.missing:,} of {records:,} {kind} missing in the CRM ({crm})"
        " and kept them; check the rights of the connection, then compare again. If they are gone:"
        f" crmhub sync compare --accept-deletions {account.client_id}"
    )


def complete_until(hub: Hub, account: Account, kind: Kind) -> int:
    """Return up to when the copy has the CRM's changes of this kind (ms since 1970).

    Raises Unavailable while the copy is incomplete, and Semantic if the CRM has no such records.
    """
    row, crm = hub.records.copy_states.of(account, kind), account.connection.adapter
    if row is not None and row.state == "absent":
        raise Semantic(
            "No %(name)s of this account's CRM (%(crm)s) are copied: %(failure)s",
            name=as_text(kind.name),
            crm=crm,
            failure=row.failure,
        )
    if row is None or row.complete_at is None or row.state == "ending":
        share = copies.share(row) if row else None
        part = "" if share is None else f" ({share:.0%})"
        raise Unavailable(
            "The copy of the %(kind)s in this account's CRM (%(crm)s) is not complete: %(loaded)s"
            " are here. GET /sync tells more.",
            retry_after=_RETRY_S,
            kind=as_text(kind.name),
            crm=crm,
            loaded=f"{row.loaded if row else 0}{part}",
        )
    until: int = row.synced_at
    return until


@in_transaction
def tell(hub: Hub, tx: Connection, account: Account, named: Sequence[Event]) -> None:
    """Let a worker read the records that a webhook of the CRM names; no record has another id."""
    ids = [one for one in named if 0 < len(one.id) <= _LONGEST_ID and one.id.isprintable()]
    for kind in copies.ORDER:
        if of_kind := [one.id for one in ids if one.kind == kind.name]:
            copies.tell(tx, account, kind, of_kind)


def switch(hub: Hub, tx: Connection, account: Account, *, on: bool) -> bool:
    """Begin or end the copy of the account's CRM; a worker does the work.

    Return whether the account has a copy now; one that ends is a copy until it is deleted. Raises
    Semantic if the adapter cannot tell what changed, and Conflict if the account has records of its
    own in the hub, since totals would count both, or while the copy of a former CRM is deleted.
    """
    if not on:
        if any(row.connection_id != account.connection.id for row in copies.all_rows(tx, account)):
            require_no_ending(tx, account)
        copies.end(tx, account)
        watching.end(tx, account)
        return bool(copies.rows(tx, account))
    _require_features(hub, account)
    # Wait for the writes in progress, which would not be the CRM's.
    catalogues.change(tx, account.id)
    if obstacle := own_records(hub, account):
        raise Conflict("mirror: %(obstacle)s", obstacle=obstacle)
    copies.begin(tx, account, copies.ORDER)
    watching.begin(hub, tx, account)
    return True


def why_impossible(hub: Hub, account: Account) -> str:
    """Return why the account's adapter cannot keep a copy, "" if it can."""
    try:
        adapter = hub.registry.load(account.connection.adapter)
    except BadConfig as exc:
        return exc.message
    lacking = ", ".join(sorted(NEEDED_FOR_COPY - features(adapter)))
    if not lacking:
        return ""
    return translatable(
        "the adapter for %(crm)s cannot keep a copy; it lacks %(lacking)s.",
        crm=adapter.title,
        lacking=lacking,
    )


def own_records(hub: Hub, account: Account) -> str:
    """Return why the account's own records in the hub rule out a copy, "" without any."""
    own = {BY_CODE[code].name: n for code, n in hub.records.counts(account).items() if n}
    if not own:
        return ""
    return translatable(
        "the account has records of its own in the hub (%(held)s); export them and archive them"
        " first, or use an account without any.",
        held=", ".join(f"{n} {name}" for name, n in own.items()),
    )


def _require_features(hub: Hub, account: Account) -> None:
    if obstacle := why_impossible(hub, account):
        raise Semantic("mirror: %(obstacle)s", obstacle=obstacle)


def change_crm(hub: Hub, tx: Connection, before: Account, after: Account) -> None:
    """End the copy of the CRM that an account leaves; that of the new CRM begins after its end.

    Raises Semantic if the new CRM's adapter cannot keep a copy, and Conflict while another copy of
    the account is being deleted.
    """
    require_no_ending(tx, before)
    _require_features(hub, after)
    copies.end(tx, before)
    watching.end(tx, before)


@in_transaction
def load_anew(hub: Hub, tx: Connection, account: Account, *, by: Author) -> None:
    """Read all records of the CRM again; raises NotFound without a copy."""
    _require(tx, account)
    copies.load_anew(tx, account)
    audit.note(tx, by, "load", "copy", account.client_id, account_id=account.id)


@in_transaction
def compare(
    hub: Hub, tx: Connection, account: Account, *, accept: bool = False, by: Author
) -> None:
    """Compare the ids of all records with the CRM's; raises NotFound without a copy.

    `accept`: archive as many records as the last comparison found missing in the CRM and kept.
    """
    _require(tx, account)
    copies.compare(tx, account, accept=accept)
    after = {"acceptDeletions": True} if accept else None
    audit.note(tx, by, "compare", "copy", account.client_id, account_id=account.id, after=after)


def require_same_crm(hub: Hub, tx: Connection, before: Account, after: Account) -> None:
    """Raise Conflict if new settings lead to another CRM, in which the copied ids are others'.

    Other credentials may still be those of another account there: all records are read again, and
    the ids compared.
    """
    old, new = before.connection, after.connection
    urls = [one.name for one in hub.registry.load(new.adapter).settings if one.type == "url"]
    moved = any(old.settings.get(name, "") != new.settings.get(name, "") for name in urls)
    if moved or (old.crm_account and new.crm_account not in ("", old.crm_account)):
        raise Conflict(
            "The account has a copy of its CRM, and these settings lead to another"
            " one, whose ids are those of other records. Switch the copy off first:"
            " crmhub account set %(client_id)s mirror=false",
            client_id=after.client_id,
        )
    copies.load_anew(tx, after)


def require_no_ending(tx: Connection, account: Account) -> None:
    """Raise Conflict while a worker deletes the account's copy."""
    if any(row.state == "ending" for row in copies.all_rows(tx, account)):
        raise Conflict(
            "The copy of %(client_id)s is being deleted; wait for its end: crmhub sync"
            " status %(client_id)s",
            client_id=account.client_id,
        )


def _require(tx: Connection, account: Account) -> None:
    require_no_ending(tx, account)
    if not copies.rows(tx, account):
        raise NotFound(
            "%(client_id)s has no copy of its CRM; switch it on with crmhub account"
            " set %(client_id)s mirror=true",
            client_id=account.client_id,
        )
