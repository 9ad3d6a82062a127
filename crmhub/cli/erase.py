"""`crmhub erase`: a person is removed from whatever the hub holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.open_hub import (
    author,
    load_account,
    opened_hub,
)
from crmhub.cli.output import print_fields, print_json

if TYPE_CHECKING:
    from crmhub.operations.erase_person import Erased
    from crmhub.operations.person_finder import Reading


@click.command()
@click.argument("client_id")
@click.argument("contact")
@click.option(
    "--as",
    "reading",
    type=click.Choice(("id", "contact", "email", "phone", "token")),
    help="What CONTACT is.",
)
@click.option(
    "--include",
    "included",
    multiple=True,
    metavar="ID",
    help="Erase someone with the same phone, too, by an id that the command lists; repeatable.",
)
@click.option("--with-linked", is_flag=True, help="Deals and tickets linked to nobody else, too.")
@click.option("--dry-run", is_flag=True, help="Show what would be erased, and stop.")
@click.option("--yes", is_flag=True, help="Erase without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; wants --yes or --dry-run.")
def erase(
    client_id: str,
    contact: str,
    reading: Reading | None,
    included: tuple[str, ...],
    with_linked: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Erase a person: records, conversations, what waits to be sent, the journal.

    CONTACT is the id of a contact among the hub's records (id), a contactId of the helpers, that
    is hub-… or the CRM's own (contact), a text with an @ (email), a number in any notation
    (phone), or a contactToken (token). It is read in each of these ways; where they lead to
    several people these are named, and --as says which way is meant. Who has no more than a phone
    in common with the person is listed, and stays unless you name them with --include.

    A contact in a remote CRM stays, and is named so that it can be erased there. Deals, tickets
    and companies stay and lose their link. Exits with 1 when nothing is held of such a person.
    """
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json asks nothing: add --yes or --dry-run.")
    with opened_hub() as hub:
        from crmhub.operations import erase_person

        account = load_account(hub, client_id)
        person, ways = erase_person.find(hub, account, contact, reading)
        found = erase_person.Erased()
        erases = False
        if person is not None:
            person = erase_person.include(hub, account, person, included)
            found = erase_person.look(hub, account, person, with_linked=with_linked)
            erases = not (dry_run or found.nothing)
            if not (as_json or found.nothing):
                click.echo(f"Found as {' and '.join(ways)}:")
                _print(found)
            if erases and not yes:
                click.confirm("Erase this for good?", abort=True)
            if erases:
                found = erase_person.erase(
                    hub, account, person, by=author(), with_linked=with_linked
                )
    if as_json:
        print_json(_as_json(found, erased=erases))
    elif erases:
        click.echo("Erased.")
        _print_to_do(found)
    elif found.nothing:
        click.echo("Nothing is held of such a person.")
    else:
        _print_to_do(found)
    if found.nothing:
        raise Exit(1)


def _print(found: Erased) -> None:
    """Print what there is, ids and counts alone."""
    states = ", ".join(f"{n} {state}" for state, n in sorted(found.actions.items()))
    print_fields(
        (name, value)
        for name, value in (
            ("contacts", _ids(found.contacts)),
            ("archived contacts", _ids(found.archived)),
            ("acquaintances", str(found.acquaintances or "")),
            ("actions", states),
            ("enrolments", str(found.enrolments or "")),
            ("kept numbers", str(found.kept_numbers or "")),
            ("possible duplicates", str(found.duplicates or "")),
            ("kept answers", str(found.answers or "")),
            ("outage reasons", str(found.reasons or "")),
            ("notes on actions", str(found.notes or "")),
            *((f"erased {kind}", _ids(ids)) for kind, ids in found.gone.items()),
            *((f"{kind} that stay", _ids(ids)) for kind, ids in found.linked.items()),
        )
        if value
    )
    if found.same_phone:
        click.echo(
            f"The same phone, and nothing else, leads to {', '.join(found.same_phone)}: these stay;"
            " --include ID erases one of them, too."
        )
    if found.alone:
        told = "; ".join(f"{kind} {_ids(ids)}" for kind, ids in found.alone.items())
        click.echo(f"Linked to nobody else: {told}; --with-linked erases these, too.")


def _print_to_do(found: Erased) -> None:
    """Print what the operator has to see to."""
    for line in _to_do(found):
        click.echo(line)


def _to_do(found: Erased) -> Iterator[str]:
    for adapter, contact_id in found.elsewhere:
        yield f"The contact {contact_id} in {adapter} must be erased there."
    for one in found.unsettled:
        yield (
            f"Action {one.action_id} ({one.kind}) may have been written to {one.adapter}"
            " without the hub's knowledge; look for the person there."
        )
    for kind, ids in found.linked.items():
        if kind != "companies":
            yield f"{kind.capitalize()} {_ids(ids)} may hold personal text; look at them."
    if not found.swept:
        yield (
            "The database was busy: deleted pages stay in its files until its next VACUUM"
            " (PostgreSQL) or checkpoint (SQLite)."
        )


def _ids(ids: Any) -> str:
    return ", ".join(map(str, ids))


def _as_json(found: Erased, *, erased: bool) -> dict[str, Any]:
    return {
        "erased": erased,
        "contacts": found.contacts,
        "archivedContacts": found.archived,
        "acquaintances": found.acquaintances,
        "actions": found.actions,
        "enrolments": found.enrolments,
        "keptNumbers": found.kept_numbers,
        "possibleDuplicates": found.duplicates,
        "keptAnswers": found.answers,
        "outageReasons": found.reasons,
        "actionNotes": found.notes,
        "linkedThatStay": found.linked,
        "linkedToNobodyElse": found.alone,
        "linkedErased": found.gone,
        "toEraseElsewhere": [
            {"adapter": adapter, "contactId": contact_id} for adapter, contact_id in found.elsewhere
        ],
        "maybeWritten": [
            {"actionId": one.action_id, "helper": one.kind, "adapter": one.adapter}
            for one in found.unsettled
        ],
        "samePhone": found.same_phone,
        "swept": found.swept,
    }
