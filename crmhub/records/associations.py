"""Links between records: two rows for each, so that either record finds it by its own id."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import orjson
import sqlalchemy as sa

from crmhub.database.bulk import Row
from crmhub.database.connection import Connection
from crmhub.database.statements import Statement, equals, in_list, param
from crmhub.database.tables import archived_association, association, records
from crmhub.errors import NotFound, Semantic, listed
from crmhub.properties.kinds import BY_CODE, KINDS, Kind

Links = dict[str, list[int]]

_ROW = {
    "account_id": "int",
    "from_kind": "int",
    "from_id": "bigint",
    "to_kind": "int",
    "to_id": "bigint",
}

_link = association.c
_TO_KIND = sa.and_(*equals(association, "account_id", "from_kind", "from_id", "to_kind"))
_LINKS_OF_RECORDS = {
    table: Statement(
        sa.select(table.c.from_id, table.c.to_kind, table.c.to_id)
        .where(*equals(table, "account_id", "from_kind"), in_list(table.c.from_id, "from_ids"))
        .order_by(table.c.from_id, table.c.to_kind, table.c.to_id)
    )
    for table in (association, archived_association)
}
_PAGE = Statement(
    sa.select(_link.to_id)
    .where(_TO_KIND, _link.to_id > param("after"))
    .order_by(_link.to_id)
    .limit(param("rows"))
)
_COUNT = Statement(sa.select(sa.func.count()).select_from(association).where(_TO_KIND))
_HOLD = Statement(
    sa.select(records.c.id)
    .where(*equals(records, "account_id", "kind"), in_list(records.c.id, "ids"))
    .order_by(records.c.id)
    # For key share: it keeps them from being deleted; they may change meanwhile.
    .with_for_update(key_share=True, read=True)
)


def of_records(
    connection: Connection,
    account_id: int,
    kind: Kind,
    ids: Sequence[int],
    *,
    table: sa.Table = association,
) -> dict[int, Links]:
    """Records without links are left out."""
    linked: dict[int, Links] = {}
    if not ids:
        return linked
    of = {"account_id": account_id, "from_kind": kind.code, "from_ids": ids}
    for row in connection.rows(_LINKS_OF_RECORDS[table], of):
        by_kind = linked.setdefault(row.from_id, {})
        by_kind.setdefault(BY_CODE[row.to_kind].name, []).append(row.to_id)
    return linked


def column(connection: Connection) -> str:
    """The query must have the parameters `:account` and `:kind`."""
    linked = (
        "select to_kind, to_id from association where account_id = :account"
        " and from_kind = :kind and from_id = records.id order by to_kind, to_id"
    )
    if connection.dialect == "postgresql":
        pairs = "json_agg(json_build_array(to_kind, to_id))"
        return f"(select cast({pairs} as text) from ({linked}) as linked)"
    return f"(select json_group_array(json_array(to_kind, to_id)) from ({linked}))"


def links(text: str | None) -> Links:
    linked: Links = {}
    for to_kind, to_id in orjson.loads(text) if text else ():
        linked.setdefault(BY_CODE[to_kind].name, []).append(to_id)
    return linked


def page(
    connection: Connection, account_id: int, kind: Kind, id: int, to: Kind, *, after: int, rows: int
) -> list[int]:
    page = _to_kind(account_id, kind, id, to) | {"after": after, "rows": rows}
    return [row.to_id for row in connection.rows(_PAGE, page)]


def count(connection: Connection, account_id: int, kind: Kind, id: int, to: Kind) -> int:
    n: int = connection.scalar(_COUNT, _to_kind(account_id, kind, id, to))
    return n


def _to_kind(account_id: int, kind: Kind, id: int, to: Kind) -> dict[str, int]:
    return {"account_id": account_id, "from_kind": kind.code, "from_id": id, "to_kind": to.code}


def require(tx: Connection, account_id: int, wanted: Sequence[tuple[str, Kind, int]]) -> None:
    """Lock the records, so that nobody archives them; raise Semantic for missing ones.

    Each item is a JSON path of the request, the record's kind, and the id.
    """
    problems = missing(tx, account_id, wanted)
    if problems:
        raise Semantic(listed(problems))


def missing(
    tx: Connection, account_id: int, wanted: Sequence[tuple[str, Kind, int]]
) -> list[tuple[str, str]]:
    """Lock like `require`; return a path and error for each missing record."""
    problems = []
    for kind in KINDS.values():
        there = hold(tx, account_id, kind, [id for _, to, id in wanted if to is kind])
        problems += [
            (path, f"there is no {kind.singular} {str(id)[:40]}; send the id of an existing one")
            for path, to, id in wanted
            if to is kind and id not in there
        ]
    return problems


def hold(tx: Connection, account_id: int, kind: Kind, ids: Collection[int]) -> set[int]:
    """Lock until the transaction ends; return the ids that exist."""
    possible = sorted({id for id in ids if 0 < id < 2**53})
    if not possible:
        return set()
    rows = tx.rows(_HOLD, {"account_id": account_id, "kind": kind.code, "ids": possible})
    return {row.id for row in rows}


def link(
    tx: Connection,
    account_id: int,
    kind: Kind,
    links: Sequence[tuple[int, Kind, int]],
    *,
    table: sa.Table = association,
) -> int:
    return tx.insert(table.name, _ROW, _rows(account_id, kind, links), or_skip=True) // 2


def unlink(tx: Connection, account_id: int, kind: Kind, id: int, to: Kind, to_id: int) -> None:
    """Raises NotFound."""
    if not tx.delete("association", _ROW, _rows(account_id, kind, [(id, to, to_id)])):
        raise NotFound(f"{kind.singular} {id} is not associated with {to.singular} {to_id}.")


def remove(
    tx: Connection,
    account_id: int,
    kind: Kind,
    links: Sequence[tuple[int, Kind, int]],
    *,
    table: sa.Table = association,
) -> None:
    tx.delete(table.name, _ROW, _rows(account_id, kind, links))


def archive(tx: Connection, account_id: int, kind: Kind, ids: Sequence[int]) -> None:
    """Move all links of these records to those of archived records."""
    links = flat(of_records(tx, account_id, kind, ids))
    link(tx, account_id, kind, links, table=archived_association)
    remove(tx, account_id, kind, links)


def restore(tx: Connection, account_id: int, kind: Kind, id: int) -> list[tuple[int, Kind, int]]:
    """Return the restored links of the record `id`: those to existing records.

    Its links to records that are still archived come back with these.
    """
    former = flat(of_records(tx, account_id, kind, [id], table=archived_association))
    live = {
        (to, to_id)
        for to in KINDS.values()
        for to_id in hold(tx, account_id, to, [other for _, k, other in former if k is to])
    }
    links = [each for each in former if each[1:] in live]
    link(tx, account_id, kind, links)
    remove(tx, account_id, kind, links, table=archived_association)
    return links


def delete_archived(tx: Connection, account_id: int, kind: Kind, ids: Sequence[int]) -> None:
    links = flat(of_records(tx, account_id, kind, ids, table=archived_association))
    remove(tx, account_id, kind, links, table=archived_association)


def flat(links: Mapping[int, Links]) -> list[tuple[int, Kind, int]]:
    return [
        (id, KINDS[name], to_id)
        for id, by_kind in links.items()
        for name, to_ids in by_kind.items()
        for to_id in to_ids
    ]


def _rows(account_id: int, kind: Kind, links: Sequence[tuple[int, Kind, int]]) -> list[Row]:
    there = {(account_id, kind.code, id, to.code, to_id) for id, to, to_id in links}
    back = {(account_id, to.code, to_id, kind.code, id) for id, to, to_id in links}
    return sorted(there | back)


def wanted(associations: Mapping[str, Sequence[int]], path: str) -> list[tuple[str, Kind, int]]:
    """Each record once: JSON path, kind, id."""
    found = []
    for name, ids in associations.items():
        seen: set[int] = set()
        for i, id in enumerate(ids):
            if id not in seen:
                seen.add(id)
                found.append((f"{path}associations.{name}[{i}]", KINDS[name], id))
    return found
