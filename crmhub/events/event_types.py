"""The types of events that a subscription can name."""

from __future__ import annotations

from collections.abc import Iterable

from crmhub.errors import Semantic
from crmhub.properties.kinds import KINDS

_CHANGES = ("created", "updated", "archived", "merged")
STAGE_CHANGED = "stage_changed"
ASSOCIATION_CHANGED = "association.changed"
LEAD_ACCEPTED, LEAD_STORED, LEAD_FAILED = "lead.accepted", "lead.stored", "lead.failed"
DEAL_FAILED, TICKET_FAILED = "deal.failed", "ticket.failed"
CONNECTION_FAILING, CONNECTION_RECOVERED = "connection.failing", "connection.recovered"
TEST = "subscription.test"
"""The type of the message that a test sends; no subscription can name it."""

TYPES: tuple[str, ...] = (
    *(f"{kind.singular}.{change}" for kind in KINDS.values() for change in _CHANGES),
    *(f"{kind.singular}.{STAGE_CHANGED}" for kind in KINDS.values() if kind.pipeline),
    ASSOCIATION_CHANGED,
    LEAD_ACCEPTED,
    LEAD_STORED,
    LEAD_FAILED,
    DEAL_FAILED,
    TICKET_FAILED,
    CONNECTION_FAILING,
    CONNECTION_RECOVERED,
)
"""All types, in the order in which subscriptions list them."""


def check_types(names: Iterable[str]) -> tuple[str, ...]:
    """Return the types without duplicates, in the order of `TYPES`.

    Raises Semantic if `names` is empty or contains an unknown type.
    """
    chosen = set(names)
    if not chosen:
        raise Semantic(f"types: name at least one type of event, such as {TYPES[0]}.")
    if unknown := sorted(chosen - set(TYPES)):
        raise Semantic(
            f"types: there is no type {unknown[0][:60]!r}; the types are {', '.join(TYPES)}."
        )
    return tuple(name for name in TYPES if name in chosen)
