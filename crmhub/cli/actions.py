"""`crmhub actions`: list, follow, show, retry, edit and discard actions of the journal."""

from __future__ import annotations

from contextlib import suppress
from time import sleep, strftime
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import print_json
from crmhub.cli.resources import command, print_shown, print_table, takes, values_of
from crmhub.operators.actions import resources
from crmhub.operators.actions.resources import STATE_WORDS, counted
from crmhub.operators.failures import resources as failures

if TYPE_CHECKING:
    from crmhub.operators.actions.action_queries import Summary

# The most actions shown before the question whether to discard them.
_PREVIEW_ROWS = 20
# Seconds between two queries of `crmhub actions tail`.
_POLL_S = 1.0
_SHORT_S = 0.05
# A larger number is shown as this one.
_MAX_COUNT = 1_000_000


@click.group()
def actions() -> None:
    """List, follow, show, retry, edit and discard the actions that helpers accepted."""


for _verb in (resources.LIST, resources.EDIT, failures.WHY):
    actions.add_command(command(_verb))


@actions.command()
@takes(*resources.FILTERS)
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
    from crmhub.errors import Unavailable
    from crmhub.operators.actions.action_queries import ActionFollower

    with opened_hub() as hub, suppress(KeyboardInterrupt):
        wanted = resources.wanted(**values_of(hub, resources.FILTERS, filters))
        follower = ActionFollower(hub.database, wanted)
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
                    print_shown(resources.SUMMARY, action)
                else:
                    click.echo(_action_line(action))
            sleep(_POLL_S)


def _action_line(action: Summary) -> str:
    words = [action.id, action.client_id, action.kind, STATE_WORDS.get(action.state, action.state)]
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
    from crmhub.api.http.resource_schemas import shown
    from crmhub.operators.actions import action_queries

    with opened_hub() as hub:
        shown_action = shown(resources.ACTION, action_queries.shown(hub.database, action_id))
    if as_json:
        print_json(shown_action)
        return
    for name, value in shown_action.items():
        if name == "blocked":
            click.echo(f"{name:>12}  {', '.join(value)}".rstrip())
        elif name == "state":
            click.echo(f"{name:>12}  {STATE_WORDS.get(value, value)}")
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
@takes(*resources.CHOICE)
@click.option(
    "--all", "everything", is_flag=True, help="All failed actions; instead of ids or filters."
)
def retry(everything: bool, **filters: Any) -> None:
    """Retry failed actions, and the actions blocked behind them.

    Without --state and IDs: every failed action that matches. Nothing is written twice.
    """
    from crmhub.operators.actions import retry_action

    _require_selection(everything, filters)
    with opened_hub() as hub:
        wanted = resources.wanted(**values_of(hub, resources.CHOICE, filters))
        count = retry_action.retry(hub.database, wanted, by=author())
    click.echo(f"{counted(count)} will be retried.")
    if not count:
        raise Exit(1)


@actions.command()
@takes(*resources.DISCARD_CHOICE)
@click.option(
    "--all", "everything", is_flag=True, help="All failed actions; instead of ids or filters."
)
@click.option(
    "--reason", "why", metavar="TEXT", required=True, help="The reason, shown with the action."
)
@click.option("--yes", is_flag=True, help="Discard without asking.")
def discard(everything: bool, why: str, yes: bool, **filters: Any) -> None:
    """Discard failed actions, and the actions blocked behind them.

    Without --state and IDs: every failed action that matches. Queued actions can be discarded,
    too. The actions are listed before you confirm. A discarded action is never sent.
    """
    from crmhub.operators.actions import action_queries, discard_action

    _require_selection(everything, filters)
    with opened_hub() as hub:
        selection = resources.wanted(**values_of(hub, resources.DISCARD_CHOICE, filters))
        if not yes:
            matches = discard_action.discardable(hub.database, selection, most=_MAX_COUNT)
            if matches.total:
                first = action_queries.listed(
                    hub.database, discard_action.narrowed(selection), limit=_PREVIEW_ROWS
                )
                print_table(resources.SUMMARY, first)
                behind = f", {matches.blocked} of them blocked behind others" * bool(
                    matches.blocked
                )
                click.confirm(f"Discard {counted(matches.total)}{behind}?", abort=True)
        count = discard_action.discard(hub.database, selection, reason=why, by=author())
    click.echo(f"{counted(count)} discarded.")
    if not count:
        raise Exit(1)


@actions.command()
@click.argument("cause")
@takes(failures.OF_ACCOUNT, failures.TO, failures.VALUES)
@click.option("--dry-run", is_flag=True, help="Print the forecast, and change nothing.")
@click.option("--yes", is_flag=True, help="Correct without asking.")
def fix(cause: str, dry_run: bool, yes: bool, **values: Any) -> None:
    """Correct one property in all failed actions of a cause, and retry them.

    `crmhub actions why` lists the causes. Without --to and --map, the forecast of a retry is
    printed; retry or discard them with `actions retry` or `actions discard --cause CAUSE`. If this
    command is killed, a worker continues.
    """
    from crmhub.operators.failures import fix_group, forecast

    arguments = (failures.OF_ACCOUNT, failures.TO, failures.VALUES)
    with opened_hub() as hub:
        given = values_of(hub, arguments, values)
        group = failures.find_group(hub, cause, given.pop("account", None))
        new = failures.new_values(group, given.get("to"), given.get("values"))
        if new is None or dry_run or not yes:
            for line in failures.forecast_lines(forecast.forecast(hub, group, new)):
                click.echo(line)
        if dry_run or new is None:
            return
        if not yes:
            question = f"Correct {group.cause.name} in {counted(group.failed)}?"
            click.confirm(question, abort=True)
        id = fix_group.start(hub, group, "correct", by=author(), values=new)
        while (progress := fix_group.progress(hub.database, id)).is_active:
            fix_group.run(hub, id, seconds=_POLL_S)
            # A worker may have a part of it.
            sleep(_SHORT_S)
    for line in failures.described(progress):
        click.echo(line)
    if not progress.changed:
        raise Exit(1)


def _require_selection(everything: bool, filters: dict[str, Any]) -> None:
    if not everything and not any(filters.values()):
        raise click.UsageError("Give action ids, a filter, or --all.")
