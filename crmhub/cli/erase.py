"""`crmhub erase`: erase all data of a person from the hub."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import print_fields, print_json

if TYPE_CHECKING:
    from crmhub.operators.erasure.erasure import Erased
    from crmhub.operators.erasure.person_finder import Reading


@click.command()
@click.argument("client_id")
@click.argument("contact")
@click.option(
    "--as",
    "reading",
    type=click.Choice(("id", "contact", "email", "phone", "token")),
    help="How to read CONTACT.",
)
@click.option(
    "--include",
    "included",
    multiple=True,
    metavar="ID",
    help="Also erase this contact with the same phone, by an id from the list; repeatable.",
)
@click.option(
    "--with-linked", is_flag=True, help="Also erase deals and tickets linked to nobody else."
)
@click.option("--dry-run", is_flag=True, help="Show what would be erased, and stop.")
@click.option("--yes", is_flag=True, help="Erase without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; needs --yes or --dry-run.")
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
    """Erase a person: records, conversations, queued and finished actions.

    CONTACT is the id of a contact in the hub's records (id), a contactId of the helpers (contact:
    hub-… or the CRM's id), an email, a phone in any notation, or a contactToken (token). All of
    these are tried; if they match several people, the command lists them, and --as chooses one.
    Contacts that share only the phone are listed, and erased only with --include.

    A contact in a remote CRM is not erased; its id is printed, so that you can erase it there.
    Deals, tickets and companies are kept without their link. Exits with 1 if no data is found.
    """
    if as_json and not (yes or dry_run):
        raise click.UsageError("--json cannot ask: add --yes or --dry-run.")
    with opened_hub() as hub:
        from crmhub.operators.erasure import erase_person
        from crmhub.operators.erasure.erasure import Erased

        account = hub.load_account(client_id)
        person, ways = erase_person.find(hub, account, contact, reading)
        findings = Erased()
        will_erase = False
        if person is not None:
            person = erase_person.include(hub, account, person, included)
            findings = erase_person.preview(hub, account, person, with_linked=with_linked)
            will_erase = not (dry_run or findings.nothing)
            if not (as_json or findings.nothing):
                click.echo(f"Found as {' and '.join(ways)}:")
                _print_findings(findings)
            if will_erase and not yes:
                click.confirm("Erase this for good?", abort=True)
            if will_erase:
                findings = erase_person.erase(
                    hub, account, person, by=author(), with_linked=with_linked
                )
    if as_json:
        print_json(_as_json(findings, erased=will_erase))
    elif will_erase:
        click.echo("Erased.")
        _print_remaining_work(findings)
    elif findings.nothing:
        click.echo("No data found.")
    else:
        _print_remaining_work(findings)
    if findings.nothing:
        raise Exit(1)


def _print_findings(findings: Erased) -> None:
    """Print ids and counts without personal data."""
    states = ", ".join(f"{n} {state}" for state, n in sorted(findings.actions.items()))
    print_fields(
        (name, value)
        for name, value in (
            ("contacts", _ids(findings.contacts)),
            ("archived contacts", _ids(findings.archived)),
            ("conversations", str(findings.conversations or "")),
            ("actions", states),
            ("enrolments", str(findings.enrolments or "")),
            ("sticky assignments", str(findings.sticky_assignments or "")),
            ("possible duplicates", str(findings.duplicates or "")),
            ("stored answers", str(findings.answers or "")),
            ("outage reasons", str(findings.outage_reasons or "")),
            ("events", str(findings.events or "")),
            ("notes on actions", str(findings.notes or "")),
            *((f"erased {kind}", _ids(ids)) for kind, ids in findings.linked_erased.items()),
            *((f"{kind} that stay", _ids(ids)) for kind, ids in findings.linked.items()),
        )
        if value
    )
    if findings.same_phone:
        click.echo(
            f"Only the phone is the same: {', '.join(findings.same_phone)}. They are kept;"
            " --include ID also erases one of them."
        )
    if findings.linked_to_nobody_else:
        linked = "; ".join(
            f"{kind} {_ids(ids)}" for kind, ids in findings.linked_to_nobody_else.items()
        )
        click.echo(f"Linked to nobody else: {linked}; --with-linked also erases them.")


def _print_remaining_work(findings: Erased) -> None:
    """Print the work that an erasure leaves to the operator, one line per task."""
    for line in _remaining_work(findings):
        click.echo(line)


def _remaining_work(findings: Erased) -> Iterator[str]:
    for adapter, contact_id in findings.elsewhere:
        yield f"The contact {contact_id} in {adapter} must be erased there."
    for action in findings.unconfirmed:
        yield (
            f"Action {action.action_id} ({action.kind}) may have reached {action.adapter}"
            " without a confirmation; search for the person there."
        )
    for kind, ids in findings.linked.items():
        if kind != "companies":
            yield f"{kind.capitalize()} {_ids(ids)} may contain personal data; check them."
    if not findings.swept:
        yield (
            "The database was busy, or this SQLite has no FTS5: deleted data stays in its files"
            " until its next VACUUM (PostgreSQL), or until a worker has purged the index of texts"
            " and the next checkpoint (SQLite)."
        )


def _ids(ids: Any) -> str:
    return ", ".join(map(str, ids))


def _as_json(findings: Erased, *, erased: bool) -> dict[str, Any]:
    return {
        "erased": erased,
        "contacts": findings.contacts,
        "archivedContacts": findings.archived,
        "acquaintances": findings.conversations,
        "actions": findings.actions,
        "enrolments": findings.enrolments,
        "keptNumbers": findings.sticky_assignments,
        "possibleDuplicates": findings.duplicates,
        "keptAnswers": findings.answers,
        "outageReasons": findings.outage_reasons,
        "events": findings.events,
        "actionNotes": findings.notes,
        "linkedThatStay": findings.linked,
        "linkedToNobodyElse": findings.linked_to_nobody_else,
        "linkedErased": findings.linked_erased,
        "toEraseElsewhere": [
            {"adapter": adapter, "contactId": contact_id}
            for adapter, contact_id in findings.elsewhere
        ],
        "maybeWritten": [
            {"actionId": action.action_id, "helper": action.kind, "adapter": action.adapter}
            for action in findings.unconfirmed
        ],
        "samePhone": findings.same_phone,
        "swept": findings.swept,
    }
