"""What is wrong with the fields of a refused form, for the macros of `parts.html`.

An error names fields itself (`HubError.fields`), or its message begins with one: `name: reason`.
Each fault stands at its field, and the first one has the focus. What stands at no field of the page
stays in the message above the form.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import flask

from crmhub.errors import ChangedMeanwhile, HubError

_ALL_SHOWN = {True: "Correct the marked fields.", False: "Not saved. Correct the marked fields."}
_NAMED = re.compile(r"([A-Za-z_][\w.\[\]]{0,60}): (.+)", re.DOTALL)


def register(app: flask.Flask) -> None:
    app.add_template_global(fault_of)
    app.add_template_global(has_focus)


def set_faults(faults: Mapping[str, str]) -> None:
    flask.g.faults = {name: _sentence(text) for name, text in faults.items()}
    flask.g.shown_faults = []


def set_error(error: HubError, at: Mapping[str, str]) -> None:
    """Show the faults of an error; `at` has form fields by the names in the error that differ."""
    named = _NAMED.fullmatch(error.message)
    pairs = error.fields or ([named.groups()] if named else [])
    set_faults({at.get(name, name): text for name, text in reversed(pairs)})


def set_differences(
    error: ChangedMeanwhile, given: Mapping[str, str], present: Mapping[str, str]
) -> None:
    """Let `error` say at each field what the older form said, if that is not the present value."""
    error.fields = tuple(
        (name, f"Your form said: {text or 'nothing'}. The present value is shown.")
        for name, text in given.items()
        if text.split() != present.get(name, "").split()
    )


def headline(error: HubError) -> str:
    """Return the message above the form, once the page was made: it omits what fields show."""
    shown, faults = set(flask.g.shown_faults), flask.g.faults
    flask.g.shown_faults = []
    if isinstance(error, ChangedMeanwhile) or not faults or not shown >= faults.keys():
        return error.message
    return _ALL_SHOWN[flask.request.method == "GET"]


def fault_of(name: str) -> str:
    fault: str = flask.g.get("faults", {}).get(name, "")
    if fault and name not in flask.g.shown_faults:
        flask.g.shown_faults.append(name)
    return fault


def has_focus(name: str, autofocus: bool = False) -> bool:
    """Return whether the cursor starts in this field: the first faulty one, else by `autofocus`."""
    if not flask.g.get("faults"):
        return autofocus
    return bool(fault_of(name)) and flask.g.shown_faults[0] == name


def _sentence(text: str) -> str:
    ended = text if text.endswith((".", "!", "?")) else f"{text}."
    return f"{ended[:1].upper()}{ended[1:]}"
