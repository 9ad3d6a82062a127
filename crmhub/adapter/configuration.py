"""Check the settings and credentials of a connection against those that its adapter declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crmhub.adapter.contract import Adapter
from crmhub.adapter.errors import BadConfig, Problem

_SHOWN_FAULTS = 20


def configured(
    adapter: type[Adapter], settings: Mapping[str, str], credentials: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return them with defaults; BadConfig has all faults, but those of `Adapter.clash`."""
    problems: list[Problem] = []
    complete: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for secret, given, filled in (
        (False, settings, complete[0]),
        (True, credentials, complete[1]),
    ):
        declared = {
            setting.name: setting for setting in adapter.settings if setting.secret is secret
        }
        word = "secret" if secret else "setting"
        for name in given.keys() - declared.keys():
            names = ", ".join(sorted(declared)) or "none"
            reason = f"{adapter.title} has no such {word}; it has {names}"
            problems.append(Problem(name[:100], reason))
        for name, setting in declared.items():
            filled[name] = given.get(name, "") or setting.default
            if filled[name]:
                fault = setting.fault(filled[name])
            else:
                fault = f"this {word} is required" if setting.required else ""
            if fault:
                problems.append(Problem(name, fault))
    if not problems and (clash := adapter.clash(*complete)):
        problems.append(clash if isinstance(clash, Problem) else Problem("", clash))
    if problems:
        raise BadConfig(_listed(problems), problems=problems)
    return complete


def _listed(problems: Sequence[Problem]) -> str:
    faults = sorted(
        f"{problem.name}: {problem.reason}" if problem.name else problem.reason
        for problem in problems
    )
    more = len(faults) - _SHOWN_FAULTS
    return "; ".join([*faults[:_SHOWN_FAULTS], *([f"and {more} more"] if more > 0 else [])])
