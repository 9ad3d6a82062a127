"""The types of events that a subscription can name."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from crmhub.accounts.event_routes import is_wanted
from crmhub.errors import Forbidden, Semantic
from crmhub.properties.kinds import KINDS

_CHANGES = ("created", "updated", "archived", "merged")
STAGE_CHANGED = "stage_changed"
ASSOCIATION_CHANGED = "association.changed"
LEAD_ACCEPTED, LEAD_STORED, LEAD_FAILED = "lead.accepted", "lead.stored", "lead.failed"
NOTE_CREATED = "note.created"
DEAL_FAILED, TICKET_FAILED = "deal.failed", "ticket.failed"
OWNER_ASSIGNED = "owner.assigned"
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
    NOTE_CREATED,
    OWNER_ASSIGNED,
    CONNECTION_FAILING,
    CONNECTION_RECOVERED,
)
"""All types, in the order in which subscriptions list them."""
_SUBJECTS = tuple(dict.fromkeys(name.partition(".")[0] for name in TYPES))
EVERY_TYPE = "*"
PATTERNS = tuple(f"{subject}.*" for subject in _SUBJECTS)
CHOICES = (*TYPES, EVERY_TYPE, *PATTERNS)
"""What a subscription can name: types, `*` for all, and `contact.*` for those of a subject."""
# An event names values of these resources; those of a connection name no record.
_RESOURCES = {
    **{kind.singular: kind.name for kind in KINDS.values()},
    "association": "contacts",
    "lead": "contacts",
    "note": "contacts",
    "owner": "contacts",
}


def check_types(names: Iterable[str]) -> tuple[str, ...]:
    """Return the types and patterns without duplicates, in the order of `CHOICES`.

    Raises Semantic if `names` is empty or contains an unknown type.
    """
    chosen = set(names)
    if not chosen:
        raise Semantic(f"types: name at least one type of event, such as {TYPES[0]}.")
    if unknown := sorted(chosen - set(CHOICES)):
        raise Semantic(
            f"types: there is no type {unknown[0][:60]!r}; the types are {', '.join(CHOICES)}."
        )
    return tuple(name for name in CHOICES if name in chosen)


def check_scopes(types: Iterable[str], scopes: Collection[str]) -> None:
    """Raise Forbidden unless an API key with these scopes may read what the events contain."""
    needed: dict[str, set[str]] = {}
    for name in types:
        for subject in _SUBJECTS if name == EVERY_TYPE else [name.partition(".")[0]]:
            if subject in _RESOURCES:
                needed.setdefault(f"{_RESOURCES[subject]}:read", set()).add(name)
    if missing := sorted(needed.keys() - set(scopes)):
        names = sorted({name for scope in missing for name in needed[scope]})
        raise Forbidden(
            f"types: this key lacks the scope {', '.join(missing)}, which {', '.join(names)} needs"
            " beside events:write, since the events hold values of these records. Create a key that"
            " has it, or name other types."
        )


def expand(types: Iterable[str]) -> tuple[str, ...]:
    """Return the types that `types` and its patterns name, in the order of `TYPES`."""
    wanted = frozenset(types)
    return tuple(name for name in TYPES if is_wanted(wanted, name))
