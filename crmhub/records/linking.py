"""Links between stored records: each is added or removed with its event, and listed in pages."""

from __future__ import annotations

from collections.abc import Sequence

from crmhub.accounts.accounts import Account
from crmhub.database.connection import Connection, now_ms
from crmhub.errors import BadRequest, NotFound, Semantic
from crmhub.properties import catalogue as catalogues
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.kinds import Kind
from crmhub.records import associations, writing
from crmhub.records.search.cursor import Cursor
from crmhub.records.store import RecordStore


def link(records: RecordStore, account: Account, kind: Kind, id: int, to: Kind, to_id: int) -> None:
    """A new link changes `updated_at` of the record `id` only.

    Raises NotFound if the record `id` is missing, and Semantic if the other one is missing or
    the same.
    """
    if (kind, id) == (to, to_id):
        raise Semantic(f"{kind.singular} {id} cannot be associated with itself.")

    def add_link(tx: Connection) -> None:
        catalogue = _hold(tx, records, account, kind)
        _require(tx, account, kind, id)
        associations.require(tx, account.id, [("toId", to, to_id)])
        if associations.link(tx, account.id, kind, [(id, to, to_id)]):
            writing.touch_linked(tx, catalogue, [(id, to, to_id)], now=now_ms())

    records.database.transact(add_link)


def link_all(
    records: RecordStore, account: Account, kind: Kind, links: Sequence[tuple[int, Kind, int]]
) -> None:
    """Link (id, other kind, other id) in one transaction, as `link` does."""
    if any((kind, id) == (to, to_id) for id, to, to_id in links):
        raise Semantic(f"A {kind.singular} cannot be associated with itself.")

    def add_links(tx: Connection) -> None:
        catalogue = _hold(tx, records, account, kind)
        associations.require(tx, account.id, [("", to, to_id) for _, to, to_id in links])
        ids = sorted({id for id, _, _ in links})
        before = associations.of_records(tx, account.id, kind, ids)
        new = [
            (id, to, to_id)
            for id, to, to_id in links
            if to_id not in before.get(id, {}).get(to.name, ())
        ]
        associations.link(tx, account.id, kind, new)
        writing.touch_linked(tx, catalogue, new, now=now_ms())

    records.database.transact(add_links)


def unlink(
    records: RecordStore, account: Account, kind: Kind, id: int, to: Kind, to_id: int
) -> None:
    """Change `updated_at` of the record `id` only. Raises NotFound."""

    def remove_link(tx: Connection) -> None:
        catalogue = _hold(tx, records, account, kind)
        _require(tx, account, kind, id)
        associations.unlink(tx, account.id, kind, id, to, to_id)
        writing.touch_linked(tx, catalogue, [(id, to, to_id)], now=now_ms(), added=False)

    records.database.transact(remove_link)


def linked(
    records: RecordStore,
    account: Account,
    kind: Kind,
    id: int,
    to: Kind,
    *,
    limit: int,
    after: Cursor | None,
) -> tuple[int, list[int], str]:
    """Return total, ids, and next cursor ("" on the last page).

    Raises NotFound, and BadRequest for another listing's cursor.
    """
    listing = f"links:{id}:{to.code}"
    of = (account.id, kind, id, to)
    records.get(account, kind, id)
    if after is not None and after.filters != listing:
        raise BadRequest("cursor: it belongs to another listing; start without a cursor")
    with records.database.reading() as connection:
        total = associations.count(connection, *of) if after is None else after.total
        last = 0 if after is None else after.id
        ids = associations.page(connection, *of, after=last, rows=limit + 1)
    cursor = ""
    if len(ids) > limit:
        cursor = Cursor(
            account_id=account.id,
            kind=kind.code,
            sort="id",
            descending=False,
            limit=limit,
            properties=None,
            include=(),
            filters=listing,
            total=total,
            started=now_ms() if after is None else after.started,
            key=0,
            id=ids[limit - 1],
        ).seal(records.signing_key)
    return total, ids[:limit], cursor


def _hold(tx: Connection, records: RecordStore, account: Account, kind: Kind) -> Catalogue:
    version, _ = catalogues.hold(tx, account.id)
    catalogue = records.catalogues.get(account.id, kind, version=version)
    account.require_own_records(is_copy=catalogue.is_copy)
    return catalogue


def _require(tx: Connection, account: Account, kind: Kind, id: int) -> None:
    if not associations.hold(tx, account.id, kind, [id]):
        raise NotFound(writing.missing(kind, id))
