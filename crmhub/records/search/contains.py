from __future__ import annotations

import re
from typing import Any

from crmhub.database.connection import Connection

# In the worst text PostgreSQL's LIKE compares a whole pattern at each character: with this length,
# 2 ms for 64 KiB. SQLite's instr takes 1 ms for the longest part allowed.
_LONGEST_PIECE = 16
# A part without one names nothing to look up in an index of trigrams. PostgreSQL's plan for any
# part would read through that whole index: seconds instead of 0.1 at 200,000 contacts.
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
        # A regular expression without operators (***=) takes 0.5 ms for any text of 64 KiB; strpos
        # mostly takes a fifth of that, but up to 8 ms for the worst text.
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
