from __future__ import annotations

import re
from functools import cached_property
from typing import Any

from crmhub.database.connection import Connection
from crmhub.database.part_indexes import IN_KEY, NOT_IN_KEY, Built, read_built
from crmhub.database.single_connection import PLANNED_BY_VALUE
from crmhub.properties.values import fold
from crmhub.records import index

# LIKE compares a whole pattern at each character: at worst 2 ms for 64 KiB with this length.
_LONGEST_PIECE = 16
# For a part without a trigram, PostgreSQL would read through its whole index (seconds).
TRIGRAM = re.compile(r"[^\W_]{3}")


def contains(
    connection: Connection, text: str, n: int, part: str, *, is_short: str = ""
) -> tuple[str, dict[str, Any]]:
    """Both texts are case-folded. `is_short` is the SQL condition that a row's text is short."""
    if connection.dialect == "sqlite":
        return f"instr({text}, :part{n}) > 0", {f"part{n}": part}
    whole, params = f"strpos({text}, :part{n}) > 0", {f"part{n}": part}
    long = len(part) > _LONGEST_PIECE
    if long and is_short:
        # A regular expression without operators (***=) takes 0.5 ms for 64 KiB, strpos up to 8 ms.
        whole = f"case when {is_short} then {whole} else {text} ~ :plain{n} end"
        params[f"plain{n}"] = f"***={part}"
    trigram = TRIGRAM.search(part)
    if trigram is None:
        return whole, params
    # What the index of trigrams can answer.
    piece = part[trigram.start() :][:_LONGEST_PIECE] if long else part
    escaped = piece.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    like = f"{text} like :piece{n} escape '\\' {PLANNED_BY_VALUE}"
    pattern = {f"piece{n}": f"%{escaped}%"}
    return (f"({like} and {whole})", pattern | params) if long else (like, pattern)


def without_index(
    connection: Connection, text: str, n: int, part: str, found: str, params: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Test an ASCII text itself, which takes PostgreSQL a tenth of the time of `found`, the test
    that looks it up in the index with `params`."""
    if connection.dialect == "sqlite":
        return found, params
    is_ascii = f"octet_length({text}) = char_length({text})"
    by_index = f"(not {is_ascii} and {found})"
    if not part.isascii():
        return by_index, params
    has_part = f'strpos(lower({text} collate "C"), :key{n}) > 0'
    return f"(({has_part} and {is_ascii}) or {by_index})", params | {f"key{n}": part}


def scan(connection: Connection, n: int, part: str, more: str = "") -> tuple[str, dict[str, Any]]:
    """Select the ids of all texts with the folded `part` on PostgreSQL, where `OTHERS` is built.

    ASCII texts are read from the primary key alone, in a third of the time of reading rows.
    """
    rows = f"select record_id as id{more} {_texts(n)}"
    where, params = _in_row(connection, n, part)
    text = f"{rows} and {NOT_IN_KEY} and {where}"
    if part.isascii():
        text = f"{rows} and {_in_key(n)} and {IN_KEY} union all {text}"
    return text, params


def scanned_size(connection: Connection, n: int, part: str) -> tuple[str, dict[str, Any]]:
    """Count what `scan` selects.

    To test each match for ASCII would take a third of the time, so all keys are counted, and the
    few other rows corrected.
    """
    where, params = _in_row(connection, n, part)
    if not part.isascii():
        return f"(select count(*) {_texts(n)} and {NOT_IN_KEY} and {where})", params
    surplus = f"cast({where} as int) - cast({_in_key(n)} as int)"
    return (
        f"((select count(*) {_texts(n)} and {_in_key(n)})"
        f" + (select coalesce(sum({surplus}), 0) {_texts(n)} and {NOT_IN_KEY}))",
        params,
    )


def _texts(n: int) -> str:
    return f"from ix_text where account_id = :account and prop_id = :prop{n}"


def _in_key(n: int) -> str:
    return f"strpos(lower(value), :key{n}) > 0"


def _in_row(connection: Connection, n: int, part: str) -> tuple[str, dict[str, Any]]:
    is_short = "full_value is null"
    where, params = contains(connection, "coalesce(folded, value)", n, part, is_short=is_short)
    return f"({where})", params | {f"key{n}": part}


# The index of trigrams would read a list for each trigram of a part that many texts contain. One
# text in twenty is five times what the index is good for, and is not met by chance.
_SAMPLE = 200
_COMMON = _SAMPLE // 20
# Enough of a text to guess from: whole ones may be 13 MB.
_SAMPLED = (
    "select left(value, 1000) from"
    " (select min(id) as first, max(id) as last from records"
    " where account_id = :account and kind = :kind) as ends, generate_series(1, :sample) as step"
    " cross join lateral (select properties ->> cast(:name as text) as value from records"
    " where account_id = :account and kind = :kind"
    " and id >= ends.first + (ends.last - ends.first) * step / :sample order by id limit 1) as one"
    " where value is not null"
)


class StoredTexts:
    """The texts of an account's properties, read once for all conditions of a search."""

    def __init__(self, connection: Connection, account_id: int, kind: int) -> None:
        self.connection, self.account_id, self.kind = connection, account_id, kind
        self._few = dict[tuple[int, int], list[str] | None]()
        self._samples = dict[str, list[str]]()

    @cached_property
    def indexes(self) -> Built:
        """The indexes of parts of texts that stand."""
        return read_built(self.connection)

    def few_values(self, prop_id: int, most: int) -> list[str] | None:
        """Return all values of a property; None if there are more than `most`, or one is long."""
        key = prop_id, most
        if key not in self._few:
            self._few[key] = index.few_values(self.connection, self.account_id, prop_id, most)
        return self._few[key]

    def is_common(self, name: str, part: str) -> bool:
        """Return whether more than one record in twenty seems to contain the folded part.

        PostgreSQL's own estimate knows the texts of all properties and accounts together.
        """
        if name not in self._samples:
            of = {"account": self.account_id, "kind": self.kind, "name": name, "sample": _SAMPLE}
            rows = self.connection.rows(_SAMPLED, of)
            self._samples[name] = [fold(value) for (value,) in rows]
        return sum(part in text for text in self._samples[name]) > _COMMON
