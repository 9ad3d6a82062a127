from __future__ import annotations

import re
from typing import Any

from crmhub.database.connection import Connection

# LIKE compares a whole pattern at each character: at worst 2 ms for 64 KiB with this length.
_LONGEST_PIECE = 16
# For a part without a trigram, PostgreSQL would read through its whole index (seconds).
_TRIGRAM = re.compile(r"[^\W_]{3}")


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
    trigram = _TRIGRAM.search(part)
    if trigram is None:
        return whole, params
    # What an index of trigrams can answer, where an operator has made one.
    piece = part[trigram.start() :][:_LONGEST_PIECE] if long else part
    escaped = piece.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    like, pattern = f"{text} like :piece{n} escape '\\'", {f"piece{n}": f"%{escaped}%"}
    return (f"({like} and {whole})", pattern | params) if long else (like, pattern)
