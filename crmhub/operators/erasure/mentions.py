"""Hide an erased person in texts about other people: reasons, messages of attempts, and events."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator
from typing import Any

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.rows import set_where
from crmhub.database.statements import Statement, param
from crmhub.database.tables import action, action_try, event
from crmhub.queue.hidden_values import hide_values

# Rows that are read at once.
_MOST = 500
_Column = sa.Column[Any]
# Of an event's data; a conversation's token may look like the id of another record.
_IDS = frozenset(("id", "contactId", "actionId", "changed"))


class Texts:
    """The texts of one column in the rows to which conditions apply."""

    def __init__(self, column: _Column, *where: sa.ColumnElement[bool]) -> None:
        self.column = column
        table = column.table
        self.key = [each for each in table.primary_key if each.name != "account_id"]
        of_account = table.c.account_id == param("account_id")
        read = (
            sa.select(*self.key, column.label("text"))
            .where(of_account, *where)
            .order_by(*self.key)
            .limit(_MOST)
        )
        after = sa.tuple_(*self.key) > sa.tuple_(
            *(param(f"after_{each.name}") for each in self.key)
        )
        self.first, self.next = Statement(read), Statement(read.where(after))

    def rows(self, tx: Connection, account_id: int) -> Iterator[Any]:
        account: dict[str, Any] = {"account_id": account_id}
        rows = tx.rows(self.first, account)
        while rows:
            yield from rows
            after = {f"after_{each.name}": getattr(rows[-1], each.name) for each in self.key}
            rows = tx.rows(self.next, account | after) if len(rows) == _MOST else []


_REASONS = Texts(action.c.reason, action.c.reason != sa.literal_column("''"))
_CAUSES = Texts(action.c.cause_text, action.c.cause_text.is_not(None))
_MESSAGES = Texts(action_try.c.message, action_try.c.message != sa.literal_column("''"))
_EVENTS = Texts(event.c.data)


def hide(tx: Connection, account_id: int, values: Collection[str]) -> tuple[int, int]:
    """Hide an erased person's values in others' texts; count changed messages and events."""
    if not values:
        return 0, 0

    def hide_in(text: str) -> str:
        return hide_values(text, values)

    def hide_in_json(text: str) -> str:
        data = json.loads(text)
        hidden = {name: data[name] if name in _IDS else walk(data[name]) for name in data}
        return json.dumps(hidden, ensure_ascii=False, separators=(",", ":"))

    def walk(value: Any) -> Any:
        if isinstance(value, str):
            return hide_in(value)
        if isinstance(value, list):
            return [walk(each) for each in value]
        if isinstance(value, dict):
            return {name: walk(each) for name, each in value.items()}
        return value

    # Of the reasons that are counted.
    replace(tx, account_id, _CAUSES, hide_in)
    notes = sum(replace(tx, account_id, texts, hide_in) for texts in (_REASONS, _MESSAGES))
    return notes, replace(tx, account_id, _EVENTS, hide_in_json)


def replace(
    tx: Connection, account_id: int, texts: Texts, change: Callable[[str], str | None]
) -> int:
    """Replace the texts that `change` changes, and count them."""
    count = 0
    for row in texts.rows(tx, account_id):
        if (changed := change(row.text)) != row.text:
            key = {each.name: getattr(row, each.name) for each in texts.key}
            where = {"account_id": account_id, **key}
            set_where(tx, texts.column.table, where, **{texts.column.name: changed})
            count += 1
    return count
