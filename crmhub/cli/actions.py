"""`crmhub actions`: list, follow, show, retry, edit and discard actions of the journal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from time import sleep, time_ns
from typing import TYPE_CHECKING, Any

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, one_line, print_fields
from crmhub.cli.resources import command, print_shown, print_table, takes, values_of
from crmhub.operators.actions import resources
from crmhub.operators.actions.resources import STATE_WORDS, counted
from crmhub.operators.failures import resources as failures

if TYPE_CHECKING:
    from crmhub.operators.actions.action_queries import Full
    from crmhub.operators.actions.resources import Listed

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
    waits for it. The output contains personal data.
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
                listed = [] if as_json else resources.with_persons(hub, changed)
            except Unavailable as exc:
                if is_available:
                    click.echo(f"{exc.message} Waiting for the database.", err=True)
                is_available, changed, listed = False, [], []
            else:
                is_available = True
            for action in changed if as_json else ():
                print_shown(resources.SUMMARY, action)
            for each in listed:
                click.echo(_action_line(each))
            sleep(_POLL_S)


def _action_line(listed: Listed) -> str:
    action = listed.summary
    words = [action.id, action.client_id, action.kind, STATE_WORDS.get(action.state, action.state)]
    words.append(listed.person)
    if action.attempts:
        words.append(f"{action.attempts} attempt{'s' if action.attempts > 1 else ''}")
    if action.reason:
        words.append(action.reason)
    return one_line("  ".join([in_words(time_ns() // 1_000_000), *words]))


@actions.command()
@click.argument("action_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(action_id: str, as_json: bool) -> None:
    """Show an action: the values sent, its attempts and result, and the actions it blocks.

    The output contains personal data.
    """
    from crmhub.operators.actions import action_queries

    with opened_hub() as hub:
        action = action_queries.shown(hub.database, action_id)
        [listed] = resources.with_persons(hub, [action.summary])
    if as_json:
        print_shown(resources.ACTION, action)
        return
    print_fields((title, text) for title, text in _fields(action, listed.person) if text)
    for attempt in action.tries:
        outcome = ": ".join(filter(None, (attempt.outcome, attempt.message)))
        text = (
            f"{attempt.number}. attempt, {in_words(attempt.began_at)}, {attempt.ms} ms: {outcome}"
        )
        click.echo(one_line(_with_id(text, attempt.correlation_id)))
        for call in attempt.calls:
            text = f"{call.method} {call.path}  {call.status or 'no answer'}  {call.ms} ms"
            click.echo(one_line(f"    {_with_id(text, call.correlation_id)}"))


def _fields(action: Full, person: str) -> Iterator[tuple[str, str]]:
    summary = action.summary
    yield "Action", summary.id
    yield "Account", summary.client_id
    yield "CRM", action.adapter
    yield "Helper", summary.kind
    yield "Person", person
    yield "Contact", summary.hub_id
    yield "State", STATE_WORDS.get(summary.state, summary.state)
    yield "Reason", summary.reason
    yield "Accepted", in_words(summary.created_at)
    if summary.state in ("queued", "running"):
        yield "Next attempt", in_words(summary.run_at)
    yield "Ended", in_words(summary.finished_at or None, never="")
    yield "Blocked by", summary.behind
    yield "Blocks", ", ".join(action.blocked)
    yield "Agent's key", summary.author
    yield "Sent", _json(action.request)
    for version in action.versions:
        words = f"{_json(version.request)} until {in_words(version.at)}, corrected by {version.by}"
        yield "Sent before", words
    yield "Given to CRM", _json(action.mapped or {})
    yield "Result", _json(action.result or {})


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if value else ""


def _with_id(text: str, correlation_id: str) -> str:
    return f"{text}  {correlation_id}".rstrip()


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
                print_table(resources.TABLE, resources.with_persons(hub, first))
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
