"""What a chatbot's variables may hold instead of a value: nothing, or the variable's own name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from crmhub.adapter import Problem
from crmhub.errors import Semantic

# {{email}}, {email}, ${email}, %email%: alone, or several with blanks between them. No quotes
# inside, so that a JSON object kept as text is not taken for one.
_PLACEHOLDERS = re.compile(
    r"""\s*(?:(?:\$?\{+[^{}"']{0,200}\}+|%[A-Za-z_][\w.\- ]{0,200}%)\s*)+""",
)
# What programs write for no value. It may be somebody's name, but is nobody's id: whoever came with
# it would be one and the same person.
_NO_ID = frozenset({"undefined", "null", "none", "nan", "[object object]"})


def is_placeholder(value: str) -> bool:
    """Return whether a value is nothing but variables that the builder did not replace."""
    return _PLACEHOLDERS.fullmatch(value) is not None


def filled(value: str, where: str) -> str:
    """Return an id or a number without blanks around it; Semantic when there is none."""
    text = value.strip()
    if not text:
        raise Semantic(f"{where}: it is blank; send a value")
    check_replaced(text, where)
    return text


def is_no_id(text: str) -> bool:
    """Return whether a placeholder, or a program's word for no value, stands for an id."""
    return is_placeholder(text) or text.casefold() in _NO_ID


def check_replaced(text: str, where: str) -> None:
    """Raise Semantic for what is no id."""
    if is_no_id(text):
        raise Semantic(f"{where}: {unreplaced(text)}")


def unreplaced(text: str) -> str:
    """Say that a placeholder came in the place of its value."""
    return f"the builder sent {shortened(text)} instead of its value; check the variable's name"


def shortened(text: str, room: int = 60) -> str:
    """Return the text as a message may show it: cut, and nothing unprintable in it."""
    cut = text if len(text) <= room else text[:room] + "…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else "�" for c in cut)


Sent = Mapping[str, str | None]
"""Property values as a bot sent them; None stands for an array or an object."""


def usable(values: Sent) -> tuple[dict[str, str], list[Problem]]:
    """Return the values that can be stored, and a problem for each other one.

    Placeholders cannot, nor can arrays and objects.
    """
    good: dict[str, str] = {}
    problems: list[Problem] = []
    for name, value in values.items():
        if value is None:
            problems.append(Problem(name, "is an array or an object; send one value"))
        elif is_placeholder(value):
            problems.append(Problem(name, unreplaced(value.strip())))
        else:
            good[name] = value
    return good, problems


def split_name(name: str) -> dict[str, str]:
    """Return `firstname` (the first word) and `lastname` (the rest), blank where there is none."""
    first, _, rest = " ".join(name.split()).partition(" ")
    return {"firstname": first, "lastname": rest}
