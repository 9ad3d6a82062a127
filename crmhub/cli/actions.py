"""`crmhub actions`: the journal, and what operators decide on it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.inputs import HELPERS, as_mapping, assignment, duration
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import iso, print_columns, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crmhub.hub import Hub
    from crmhub.journal.action_queries import Summary, Wanted

# Said again, so that `--help` needs to load nothing.
_STATES = ("running", "queued", "done", "refused", "dead", "parked", "discarded")
# So many of those to be discarded are shown.
_SHOWN = 20
# More are counted as so many.
_COUNTED = 1_000_000


@click.group()
def actions() -> None:
    """What helpers accepted and what became of it: list, show, retry, correct, discard."""


def _narrowing(command: Callable[..., Any], *, reason: str = "--reason") -> Callable[..., Any]:
    for option in reversed(
        (
            click.option("--account", "client_id", metavar="CLIENT_ID", help="Of this account."),
            click.option("--state", "states", multiple=True, type=click.Choice(_STATES)),
            click.option("--helper", "kinds", multiple=True, type=click.Choice(HELPERS)),
            click.option("--token", metavar="CONTACTTOKEN", help="Of this conversation's person."),
            click.option(
                "--contact",
                metavar="CONTACTID",
                help="Of who has this id: the hub's (hub-…) or the CRM's.",
            ),
            click.option("--phone", metavar="PHONE", help="Of who has this phone."),
            click.option(reason, "reason", metavar="TEXT", help="Whose reason contains this."),
            click.option(
                "--older-than",
                type=duration,
                metavar="TIME",
                help="Accepted so long ago: 10m, 2h, 3d.",
            ),
            click.option(
                "--newer-than",
                type=duration,
                metavar="TIME",
                help="Accepted since so long ago.",
            ),
        )
    ):
        command = option(command)
    return command


@actions.command("list")
@_narrowing
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--after", metavar="ID", default="", help="Begin behind this action.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_actions(limit: int, after: str, as_json: bool, **narrowing: Any) -> None:
    """List actions, the newest first."""
    from crmhub.api.admin.action_answers import summary_shown
    from crmhub.journal import action_queries

    with opened_hub() as hub:
        found = action_queries.listed(
            hub.database, _wanted(hub, after=after, **narrowing), limit=limit
        )
    if as_json:
        print_json([summary_shown(one) for one in found])
        return
    _print(found)


def _print(found: Sequence[Summary]) -> None:
    print_columns(
        ("ACTION", "ACCEPTED", "ACCOUNT", "HELPER", "STATE", "ATTEMPTS", "REASON"),
        [
            (
                one.id,
                iso(one.created_at) or "",
                one.client_id,
                one.kind,
                one.state,
                str(one.attempts),
                one.reason[:60],
            )
            for one in found
        ],
    )


@actions.command()
@click.argument("action_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(action_id: str, as_json: bool) -> None:
    """Show an action: what was sent, each attempt, what came of it, what it blocks.

    It holds personal data.
    """
    from crmhub.api.admin.action_answers import action_shown
    from crmhub.journal import action_queries

    with opened_hub() as hub:
        whole = action_shown(action_queries.shown(hub.database, action_id))
    if as_json:
        print_json(whole)
        return
    for name, value in whole.items():
        if name == "blocked":
            click.echo(f"{name:>12}  {', '.join(value)}".rstrip())
        elif name != "attempts":
            click.echo(f"{name:>12}  {value}")
    for one in whole["attempts"]:
        said = ": ".join(filter(None, (one["outcome"], one["message"])))
        number = f"{one['number']}."
        click.echo(f"{number:>12}  {one['at']}  {one['ms']} ms  {said}  {one['correlationId']}")


@actions.command()
@_narrowing
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that failed, without another choice.")
def retry(ids: tuple[str, ...], everything: bool, **narrowing: Any) -> None:
    """Retry what failed, and what is blocked behind it.

    Without --state and IDs that is what is dead. Everything keeps its identity: nothing is done
    twice.
    """
    from crmhub.journal import action_queries

    _demand_choice(ids, everything, narrowing)
    with opened_hub() as hub:
        count = action_queries.retry(hub.database, _wanted(hub, ids=ids, **narrowing), by=author())
    click.echo(f"{_counted(count)} will be retried.")
    if not count:
        raise Exit(1)


@actions.command()
@click.argument("action_id", metavar="ID")
@click.argument("values", metavar="K=V...", nargs=-1, required=True, type=assignment)
def edit(action_id: str, values: tuple[tuple[str, str], ...]) -> None:
    """Correct values of an action that failed or is blocked, and retry it.

    Of createLead these are name, email and phone; of the others any property, and of deals and
    tickets contactId. "k=" clears a property of setProperties, and leaves a value out elsewhere.
    """
    from crmhub.operations import correct_action

    given = as_mapping(values, "K=V")
    with opened_hub() as hub:
        count = correct_action.correct(hub, action_id, given, by=author())
    click.echo(f"Corrected. {_counted(count)} will be retried.")


@actions.command()
@partial(_narrowing, reason="--reason-contains")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that failed, without another choice.")
@click.option("--reason", "why", metavar="TEXT", required=True, help="Why; shown with the action.")
@click.option("--yes", is_flag=True, help="Discard without asking.")
def discard(ids: tuple[str, ...], everything: bool, why: str, yes: bool, **narrowing: Any) -> None:
    """Close what failed and nobody needs any more, and what is blocked behind it.

    Without --state and IDs that is what is dead; what is queued can be discarded, too. It is shown
    first. Nothing discarded is ever sent.
    """
    from crmhub.journal import action_queries, discard_action

    _demand_choice(ids, everything, narrowing)
    with opened_hub() as hub:
        wanted = _wanted(hub, ids=ids, **narrowing)
        if not yes:
            chosen = discard_action.discardable(hub.database, wanted, most=_COUNTED)
            if chosen.total:
                _print(
                    action_queries.listed(
                        hub.database, discard_action.narrowed(wanted), limit=_SHOWN
                    )
                )
                behind = f", {chosen.blocked} of them blocked behind others" * bool(chosen.blocked)
                click.confirm(f"Discard {_counted(chosen.total)}{behind}?", abort=True)
        count = discard_action.discard(hub.database, wanted, reason=why, by=author())
    click.echo(f"{_counted(count)} discarded.")
    if not count:
        raise Exit(1)


def _demand_choice(ids: tuple[str, ...], everything: bool, narrowing: dict[str, Any]) -> None:
    if not ids and not everything and not any(narrowing.values()):
        raise click.UsageError("Name actions, narrow the choice, or say --all.")


def _counted(count: int) -> str:
    return f"{count:,} {'action' if count == 1 else 'actions'}"


def _wanted(
    hub: Hub,
    *,
    client_id: str | None,
    states: tuple[str, ...],
    kinds: tuple[str, ...],
    token: str | None,
    contact: str | None,
    phone: str | None,
    reason: str | None,
    older_than: int | None,
    newer_than: int | None,
    ids: tuple[str, ...] = (),
    after: str = "",
) -> Wanted:
    from crmhub.accounts.accounts import load
    from crmhub.journal.action_queries import Wanted

    account = None
    if client_id:
        with hub.database.reading() as connection:
            account = load(connection, client_id, hub.plans)
    return Wanted(
        account=account,
        states=states,
        kinds=kinds,
        contact_token=token or "",
        contact=contact or "",
        phone=phone or "",
        reason=reason or "",
        older_than_ms=older_than or 0,
        newer_than_ms=newer_than or 0,
        ids=ids,
        after=after,
    )
