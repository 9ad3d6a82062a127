"""Hide personal data in actions, for users who see activity without personal data.

All values of a call are hidden, and in messages everything that is or looks like one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crmhub.operators.actions.action_queries import Full
from crmhub.queue.hidden_values import HIDDEN, hide_in_text

# Of a result: ids that the CRM gave, and the address of the record in the CRM.
_KEPT = ("status", "contact_id", "record_id", "url")


def hide_in_action(action: Full) -> Full:
    summary, request = action.summary, action.request
    return replace(
        action,
        summary=summary._replace(reason=hide_in_text(summary.reason, request)),
        request=_hide_values(request),
        mapped=None if action.mapped is None else _hide_values(action.mapped),
        result=None if action.result is None else _hide_in_result(action.result, request),
        versions=tuple(replace(one, request=_hide_values(one.request)) for one in action.versions),
        tries=tuple(
            one._replace(message=hide_in_text(one.message, request)) for one in action.tries
        ),
    )


def _hide_values(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _hide_values(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_hide_values(member) for member in value]
    return HIDDEN if value not in (None, "") else value


def _hide_in_result(result: Mapping[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    def hide(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: hide(member) for name, member in value.items()}
        if isinstance(value, list):
            return [hide(member) for member in value]
        return hide_in_text(value, request) if isinstance(value, str) else value

    return {name: value if name in _KEPT else hide(value) for name, value in result.items()}
