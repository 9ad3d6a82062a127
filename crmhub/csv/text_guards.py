"""What spreadsheets need so that a cell stays the text that it is, written and undone.

A cell that begins like a formula (https://owasp.org/www-community/attacks/CSV_Injection), or a long
number, gets a leading apostrophe. An import removes it, and other programs' guards: `="01234"` and
a leading U+001F.
"""

from __future__ import annotations

import re

# Blanks, control characters and invisible characters, behind which a spreadsheet finds a formula.
_HIDDEN = (
    r"[\s\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u115f\u1160\u17b4\u17b5"
    r"\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0"
    r"\ufff9-\ufffb\U000e0000-\U000e0fff]*"
)
# Spreadsheets also accept the full-width forms of East Asian keyboards.
_FORMULA = re.compile(rf"{_HIDDEN}(?:[=+\-@＝＋－＠]|(?<=[\t\r\n\x1f]))")
# A plain number executes nothing, and the sign belongs to a phone number.
_NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?", re.ASCII)
_WITHOUT_LETTERS = re.compile(r"[\W_]*\d[\W\d_]*")
_SHORTENED = re.compile(
    r"[\s'\"]*[+-]?(?P<digits>\d+(?:[.,](?P<decimals>\d*))?)\s*E\s*(?P<plus>\+?)\s*(?P<power>\d+)"
    r"[\s'\"]*",
    re.IGNORECASE,
)
# What Excel, Sheets and LibreOffice write in English, German, French, Italian, Portuguese, Spanish.
_ERROR = re.compile(
    r"\s*#(?:N/[ADV]|NV|(?:DIV/0|N[UÚ]M|REF|VAL(?:UE|OR|ORE|EUR)|NULL|NUL[OE]?|NULO|ERROR|SPILL|CALC"
    r"|WERT|BEZUG|ZAHL|RIF|NOMBRE|¡(?:DIV/0|NUM|REF|VALOR|NULO))!|¿?(?:NAME|NOM|NOME|NOMBRE)\?|#{2,})\s*"
)
_QUOTED_FORMULA = re.compile(rf'{_HIDDEN}="((?:[^"]|"")*)"\s*')
_UNIT_SEPARATOR = "\x1f"


def escape_formula(value: str) -> str:
    is_formula = _FORMULA.match(value) and not _NUMBER.fullmatch(value)
    changes = (
        is_formula
        or unescape_formula(value) != value
        or _SHORTENED.fullmatch(value)
        or is_spreadsheet_error(value)
    )
    return f"'{value}" if changes else value


def unescape_formula(cell: str) -> str:
    if cell.startswith("'"):
        guarded = cell.lstrip("'")
        is_guard = any(
            (
                _FORMULA.match(guarded),
                _WITHOUT_LETTERS.fullmatch(guarded),
                _SHORTENED.fullmatch(guarded),
                is_spreadsheet_error(guarded),
            )
        )
        return cell[1:] if is_guard else cell
    if match := _QUOTED_FORMULA.fullmatch(cell):
        return match[1].replace('""', '"')
    return cell.lstrip(_UNIT_SEPARATOR)


def is_spreadsheet_error(cell: str) -> bool:
    """Return whether a cell is an error such as `#REF!`, or the `###` of a narrow column."""
    return _ERROR.fullmatch(cell) is not None


def has_lost_digits(cell: str, *, is_number: bool = False, is_phone: bool = False) -> bool:
    """`5E11` as text may be a code. A number such as 1.5E+1 has lost nothing."""
    match = _SHORTENED.fullmatch(cell)
    if match is None:
        return False
    if is_number:
        return len(match["power"]) > 4 or int(match["power"]) > len(match["decimals"] or "")
    return is_phone or bool(match["plus"]) or match["decimals"] is not None
