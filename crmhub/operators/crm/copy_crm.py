"""The copy of an account's CRM, as operators switch it on and off and see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.adapter import BadConfig, Event, features
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.errors import Conflict, NotFound, Semantic, Unavailable
from crmhub.hub import Hub, in_transaction
from crmhub.properties import catalogue as catalogues
from crmhub.properties.kinds import BY_CODE, Kind
from crmhub.records import copies

_RETRY_S = 10
WEBHOOK_PATH = "/crm-changes"
_NEEDS = frozenset({"changed_since", "describe", "get_records"})


@dataclass(frozen=True, slots=True)
class CopyState:
    """The copy of one kind of record; times are ms since 1970, None if not yet.

    `state`: loading, following, ending, or absent if the CRM has no such records. `synced_at`: up
    to when the copy has the CRM's changes. `differences`: the records that the last comparison
    found in the CRM or in the copy alone; they were read again. `left_out`: values that the hub
    cannot hold. `failure`: why the last pull failed, "" if it did not.
    """

    kind: str
    state: str
    records: int
    complete_at: int | None
    synced_at: int | None
    compared_at: int | None
    differences: int | None
    left_out: int
    failure: str

    @property
    def is_complete(self) -> bool:
        return self.complete_at is not None


def states(hub: Hub, account: Account) -> list[CopyState]:
    """Return the state of each kind of record; none without a copy."""
    with hub.database.reading() as db:
        rows = copies.rows(db, account)
    counts = hub.records.counts(account) if rows else {}
    return [
        CopyState(
            BY_CODE[row.kind].name,
            row.state,
            counts.get(row.kind, 0),
            row.complete_at,
            row.synced_at,
            row.compared_at,
            row.differences,
            row.left_out,
            row.failure,
        )
        for row in rows
    ]


def can_copy(hub: Hub, account: Account) -> bool:
    try:
        return features(hub.registry.load(account.connection.adapter)) >= _NEEDS
    except BadConfig:
        return False


def complete_until(hub: Hub, account: Account, kind: Kind) -> int:
    """Return up to when the copy has the CRM's changes of this kind (ms since 1970).

    Raises Unavailable while the copy is incomplete, and Semantic if the CRM has no such records.
    """
    row, crm = hub.records.copy_states.of(account, kind), account.connection.adapter
    if row is not None and row.state == "absent":
        raise Semantic(f"This account's CRM ({crm}) has no {kind.name}.")
    if row is None or row.complete_at is None or row.state == "ending":
        raise Unavailable(
            f"The copy of the {kind.name} in this account's CRM ({crm}) is not complete:"
            f" {row.loaded if row else 0} are here. GET /sync tells more.",
            retry_after=_RETRY_S,
        )
    until: int = row.synced_at
    return until


def webhook_signature(hub: Hub, account: Account) -> str:
    """Return what nobody can guess of the address to which the account's CRM sends webhooks."""
    return hub.signature("crm webhooks", f"{account.id}/{account.connection.id}")


def webhook_address(hub: Hub, account: Account) -> str:
    """Return the address for the CRM's webhooks; "" if the adapter cannot read them."""
    try:
        adapter = hub.registry.load(account.connection.adapter)
    except BadConfig:
        return ""
    if "events" not in features(adapter):
        return ""
    base = hub.settings.public_url or "http(s)://THIS-SERVICE"
    return f"{base}{WEBHOOK_PATH}/{account.client_id}/{webhook_signature(hub, account)}"


@in_transaction
def tell(hub: Hub, tx: Connection, account: Account, named: Sequence[Event]) -> None:
    """Let a worker read the records that a webhook of the CRM names."""
    for kind in copies.ORDER:
        if ids := [one.id for one in named if one.kind == kind.name]:
            copies.tell(tx, account, kind, ids)


def switch(hub: Hub, tx: Connection, account: Account, *, on: bool) -> bool:
    """Begin or end the copy of the account's CRM; a worker does the work.

    Return whether the account has a copy now; one that ends is a copy until it is deleted. Raises
    Semantic if the adapter cannot tell what changed, and Conflict if the account has records of its
    own in the hub, since totals would count both.
    """
    if not on:
        copies.end(tx, account)
        return bool(copies.rows(tx, account))
    adapter = hub.registry.load(account.connection.adapter)
    if lacking := sorted(_NEEDS - features(adapter)):
        raise Semantic(
            f"mirror: the adapter for {adapter.title} cannot keep a copy; it lacks"
            f" {', '.join(lacking)}."
        )
    # Wait for the writes in progress, which would not be the CRM's.
    catalogues.change(tx, account.id)
    own = {BY_CODE[code].name: n for code, n in hub.records.counts(account).items() if n}
    if own:
        held = ", ".join(f"{n} {name}" for name, n in own.items())
        raise Conflict(
            f"mirror: the account has records of its own in the hub ({held}); export them and"
            " archive them first, or use an account without any."
        )
    copies.begin(tx, account, copies.ORDER)
    return True


@in_transaction
def load_anew(hub: Hub, tx: Connection, account: Account, *, by: Author) -> None:
    """Read all records of the CRM again; raises NotFound without a copy."""
    _require(tx, account)
    copies.load_anew(tx, account)
    audit.note(tx, by, "load", "copy", account.client_id, account_id=account.id)


@in_transaction
def compare(hub: Hub, tx: Connection, account: Account, *, by: Author) -> None:
    """Compare the ids of all records with the CRM's; raises NotFound without a copy."""
    _require(tx, account)
    copies.compare(tx, account)
    audit.note(tx, by, "compare", "copy", account.client_id, account_id=account.id)


def _require(tx: Connection, account: Account) -> None:
    rows = copies.rows(tx, account)
    if any(row.state == "ending" for row in rows):
        raise Conflict(f"The copy of {account.client_id} is being deleted; wait for its end.")
    if not rows:
        raise NotFound(
            f"{account.client_id} has no copy of its CRM; switch it on with"
            f" crmhub account set {account.client_id} mirror=true"
        )
