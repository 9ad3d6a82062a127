"""`crmhub actions`: list, follow, show, retry, edit and discard actions of the journal."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from time import sleep, strftime
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.inputs import HELPERS, as_mapping, assignment, duration
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import iso, print_columns, print_json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from crmhub.hub import Hub
    from crmhub.operators.actions.action_queries import Summary, Wanted

# `STATE_WORDS` of the journal with hyphens; copied, so that `--help` does not import it.
_WORDS = {"running": "in-progress", "dead": "failed", "parked": "blocked"}
_STATES = ("queued", "done", "refused", "discarded", *_WORDS.values(), *_WORDS)
# The most actions shown before the question whether to discard them.
_PREVIEW_ROWS = 20
# Seconds between two queries of `crmhub actions tail`.
_POLL_S = 1.0
# A larger number is shown as this one.
_MAX_COUNT = 1_000_000


@click.group()
def actions() -> None:
    """List, follow, show, retry, edit and discard the actions that helpers accepted."""


def _wire_states(ctx: click.Context, param: click.Parameter, words: Any) -> tuple[str, ...]:
    states = {word: state for state, word in _WORDS.items()}
    return tuple(states.get(word, word) for word in words)


def _filter_options(command: Callable[..., Any], *, reason: str = "--reason") -> Callable[..., Any]:
    for option in reversed(
        (
            click.option("--account", "client_id", metavar="CLIENT_ID", help="Only this account."),
            click.option(
                "--state",
                "states",
                multiple=True,
                type=click.Choice(_STATES),
                callback=_wire_states,
                help="Only actions in this state; repeatable.",
            ),
            click.option(
                "--helper",
                "kinds",
                multiple=True,
                type=click.Choice(HELPERS),
                help="Only actions of this helper; repeatable.",
            ),
            click.option("--token", metavar="CONTACTTOKEN", help="Only this conversation."),
            click.option(
                "--contact",
                metavar="CONTACTID",
                help="Only this contact, by its id in the hub (hub-…) or the CRM.",
            ),
            click.option("--phone", metavar="PHONE", help="Only contacts with this phone."),
            click.option(
                reason, "reason", metavar="TEXT", help="Only with this text in the reason."
            ),
            click.option(
                "--older-than",
                type=duration,
                metavar="TIME",
                help="Accepted longer ago than 10m, 2h, 3d.",
            ),
            click.option(
                "--newer-than",
                type=duration,
                metavar="TIME",
                help="Accepted within the last 10m, 2h, 3d.",
            ),
        )
    ):
        command = option(command)
    return command


@actions.command("list")
@_filter_options
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@click.option("--after", metavar="ID", default="", help="Start after this action.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_actions(limit: int, after: str, as_json: bool, **filters: Any) -> None:
    """List actions, newest first."""
    from crmhub.api.admin.action_answers import summary_shown
    from crmhub.operators.actions import action_queries

    with opened_hub() as hub:
        matches = action_queries.listed(
            hub.database, _selection(hub, after=after, **filters), limit=limit
        )
    if as_json:
        print_json([summary_shown(action) for action in matches])
        return
    _print_actions(matches)


def _print_actions(actions: Sequence[Summary]) -> None:
    print_columns(
        ("ACTION", "ACCEPTED", "ACCOUNT", "HELPER", "STATE", "ATTEMPTS", "REASON"),
        [
            (
                action.id,
                iso(action.created_at) or "",
                action.client_id,
                action.kind,
                _WORDS.get(action.state, action.state),
                str(action.attempts),
                action.reason[:60],
            )
            for action in actions
        ],
    )


@actions.command()
@_filter_options
@click.option(
    "--lines",
    type=click.IntRange(0, 500),
    default=10,
    show_default=True,
    help="How many of the newest actions to print first.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
def tail(lines: int, as_json: bool, **filters: Any) -> None:
    """Follow the journal: print new actions, and actions whose state changes, until Ctrl-C.

    Only the newest 500 matching actions are followed. If the database is unavailable, the command
    waits for it.
    """
    from crmhub.api.admin.action_answers import summary_shown
    from crmhub.errors import Unavailable
    from crmhub.operators.actions.action_queries import ActionFollower

    with opened_hub() as hub, suppress(KeyboardInterrupt):
        follower = ActionFollower(hub.database, _selection(hub, **filters))
        is_available = True
        while True:
            try:
                changed = follower.changes(first=lines)
            except Unavailable as exc:
                if is_available:
                    click.echo(f"{exc.message} Waiting for the database.", err=True)
                is_available, changed = False, []
            else:
                is_available = True
            for action in changed:
                if as_json:
                    print_json(summary_shown(action))
                else:
                    click.echo(_action_line(action))
            sleep(_POLL_S)


def _action_line(action: Summary) -> str:
    words = [action.id, action.client_id, action.kind, _WORDS.get(action.state, action.state)]
    if action.attempts:
        words.append(f"{action.attempts} attempt{'s' if action.attempts > 1 else ''}")
    if action.reason:
        words.append(action.reason)
    return "  ".join([strftime("%H:%M:%S"), *words])


@actions.command()
@click.argument("action_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(action_id: str, as_json: bool) -> None:
    """Show an action: the values sent, its attempts and result, and the actions it blocks.

    The output contains personal data.
    """
    from crmhub.api.admin.action_answers import action_shown
    from crmhub.operators.actions import action_queries

    with opened_hub() as hub:
        shown_action = action_shown(action_queries.shown(hub.database, action_id))
    if as_json:
        print_json(shown_action)
        return
    for name, value in shown_action.items():
        if name == "blocked":
            click.echo(f"{name:>12}  {', '.join(value)}".rstrip())
        elif name == "state":
            click.echo(f"{name:>12}  {_WORDS.get(value, value)}")
        elif name != "attempts":
            click.echo(f"{name:>12}  {value}")
    for attempt in shown_action["attempts"]:
        outcome = ": ".join(filter(None, (attempt["outcome"], attempt["message"])))
        number = f"{attempt['number']}."
        click.echo(
            f"{number:>12}  {attempt['at']}  {attempt['ms']} ms  {outcome}"
            f"  {attempt['correlationId']}"
        )
        for call in attempt["calls"]:
            click.echo(
                f"{'':>12}  {call['method']} {call['path']}  {call['status'] or 'no answer'}"
                f"  {call['ms']} ms  {call['correlationId']}".rstrip()
            )


@actions.command()
@_filter_options
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--all", "everything", is_flag=True, help="All failed actions; instead of ids or filters."
)
def retry(ids: tuple[str, ...], everything: bool, **filters: Any) -> None:
    """Retry failed actions, and the actions blocked behind them.

    Without --state and IDs: every failed action that matches. Nothing is written twice.
    """
    from crmhub.operators.actions import retry_action

    _require_selection(ids, everything, filters)
    with opened_hub() as hub:
        count = retry_action.retry(hub.database, _selection(hub, ids=ids, **filters), by=author())
    click.echo(f"{_count_actions(count)} will be retried.")
    if not count:
        raise Exit(1)


@actions.command()
@click.argument("action_id", metavar="ID")
@click.argument("values", metavar="K=V...", nargs=-1, required=True, type=assignment)
def edit(action_id: str, values: tuple[tuple[str, str], ...]) -> None:
    """Correct values of an action that failed or is blocked, and retry it.

    createLead has name, email and phone; the other helpers have any property; deals and tickets
    also have contactId. "k=" clears a property in setProperties, and removes the value elsewhere.
    """
    from crmhub.operators.actions import correct_action

    given = as_mapping(values, "K=V")
    with opened_hub() as hub:
        count = correct_action.correct(hub, action_id, given, by=author())
    click.echo(f"Corrected. {_count_actions(count)} will be retried.")


@actions.command()
@partial(_filter_options, reason="--reason-contains")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--all", "everything", is_flag=True, help="All failed actions; instead of ids or filters."
)
@click.option(
    "--reason", "why", metavar="TEXT", required=True, help="The reason, shown with the action."
)
@click.option("--yes", is_flag=True, help="Discard without asking.")
def discard(ids: tuple[str, ...], everything: bool, why: str, yes: bool, **filters: Any) -> None:
    """Discard failed actions, and the actions blocked behind them.

    Without --state and IDs: every failed action that matches. Queued actions can be discarded,
    too. The actions are listed before you confirm. A discarded action is never sent.
    """
    from crmhub.operators.actions import action_queries, discard_action

    _require_selection(ids, everything, filters)
    with opened_hub() as hub:
        selection = _selection(hub, ids=ids, **filters)
        if not yes:
            matches = discard_action.discardable(hub.database, selection, most=_MAX_COUNT)
            if matches.total:
                _print_actions(
                    action_queries.listed(
                        hub.database, discard_action.narrowed(selection), limit=_PREVIEW_ROWS
                    )
                )
                behind = f", {matches.blocked} of them blocked behind others" * bool(
                    matches.blocked
                )
                click.confirm(f"Discard {_count_actions(matches.total)}{behind}?", abort=True)
        count = discard_action.discard(hub.database, selection, reason=why, by=author())
    click.echo(f"{_count_actions(count)} discarded.")
    if not count:
        raise Exit(1)


def _require_selection(ids: tuple[str, ...], everything: bool, filters: dict[str, Any]) -> None:
    if not ids and not everything and not any(filters.values()):
        raise click.UsageError("Give action ids, a filter, or --all.")


def _count_actions(count: int) -> str:
    return f"{count:,} {'action' if count == 1 else 'actions'}"


def _selection(
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
    from crmhub.operators.actions.action_queries import Wanted

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
