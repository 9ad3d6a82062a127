"""Erase a person: all data that the hub has of them, including actions that are not sent yet.

Contacts in a remote CRM are not changed. The hub's own records of the person are erased, even if
the account uses them as its CRM.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.connection import Connection, Database
from crmhub.errors import BadRequest, Conflict, Unavailable, shortened
from crmhub.hub import Hub, in_transaction
from crmhub.operators.erasure.erasure import Erased, Erasure
from crmhub.operators.erasure.person_finder import READINGS, Person, PersonFinder, Reading
from crmhub.records import text_parts

_VACUUMED_TABLES = (
    "records, archived_record, ix_text, ix_num, ix_date, unique_value, association,"
    " archived_association, binding, enrolment, kept_number, action, action_try, idempotency,"
    " outage, lease, mark, possible_duplicate, team_assignment, timeline_entry"
)


def find(
    hub: Hub, account: Account, text: str, reading: Reading | None = None
) -> tuple[Person | None, tuple[Reading, ...]]:
    """Return the person that a text names, and the kinds of name that led to the person.

    Without `reading` every kind is tried. Raises Conflict with a list of several persons.
    """
    found: list[tuple[Reading, Person]] = []
    with hub.database.reading() as db:
        finder = PersonFinder(hub, db, account)
        for kind in (reading,) if reading else READINGS:
            found += [(kind, person) for person in finder.find(text, kind)]
    if not found:
        return None, ()
    first = found[0][1]
    if others := [kind for kind, person in found if not person.overlaps(first)]:
        listed = "; ".join(
            f"as {kind}: {', '.join(person.names) or 'a conversation'}" for kind, person in found
        )
        ambiguous = len({found[0][0], *others}) > 1
        remedy = f"say --as {'|'.join(READINGS)}" if ambiguous else "name one by such an id"
        raise Conflict(
            "%(text)s leads to several people (%(listed)s); %(remedy)s.",
            text=shortened(text),
            listed=listed,
            remedy=remedy,
        )
    return first, tuple(dict.fromkeys(kind for kind, _ in found))


def include(hub: Hub, account: Account, person: Person, names: Collection[str]) -> Person:
    """Add persons of `Erased.same_phone` by their ids; raises BadRequest for other ids."""
    with hub.database.reading() as db:
        others = PersonFinder(hub, db, account).same_phone(person)
    for name in names:
        same = next((other for other in others if name in other.names), None)
        if same is None:
            listed = ", ".join(id for other in others for id in other.names) or "nobody"
            raise BadRequest(
                "%(name)s has none of the person's phones; %(listed)s has.",
                name=shortened(name),
                listed=listed,
            )
        person |= same
    return person


def preview(hub: Hub, account: Account, person: Person, *, with_linked: bool = False) -> Erased:
    """Return what `erase` would return, without changing any data."""
    return hub.rehearse(lambda tx: Erasure(hub, tx, account, person).run(with_linked=with_linked))


def erase(
    hub: Hub, account: Account, person: Person, *, by: Author, with_linked: bool = False
) -> Erased:
    """Erase also data that arrives meanwhile, and return the report.

    `with_linked`: deals and tickets of no other contact, too. If it raises Unavailable, nothing is
    erased.
    """
    erased = _erase(hub, account, person, by, with_linked)
    return replace(erased, swept=_sweep(hub.database))


@in_transaction
def _erase(
    hub: Hub, tx: Connection, account: Account, person: Person, by: Author, with_linked: bool
) -> Erased:
    erased = Erasure(hub, tx, account, person).run(with_linked=with_linked)
    text_parts.ask_for_purge(tx)
    # The log tells that somebody was erased, not who.
    after = {"contacts": len(erased.contacts) + len(erased.archived)}
    audit.note(tx, by, "erase", "person", "", account_id=account.id, after=after)
    return erased


def _sweep(database: Database) -> bool:
    """Remove remains of deleted rows from the files; False if, for example, they are in use."""
    # The person is erased, and the caller must learn that in any case.
    with suppress(Unavailable), database.reading() as db:
        if database.dialect == "postgresql":
            db.run(f"vacuum {_VACUUMED_TABLES}")
            return True
        purged = text_parts.purge(database)
        # Old pages stay in SQLite's log until it is truncated.
        busy: int = db.scalar("pragma wal_checkpoint(truncate)")
        return purged and not busy
    return False
