"""`crmhub events`: the event subscriptions of an account."""

from __future__ import annotations

import time
from typing import Any

import rich_click as click

from crmhub import durations
from crmhub.cli.inputs import moment
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.resources import command, print_shown
from crmhub.operators.events import resources

_ALL = "all"
_FAILED = 1

_types = click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="A type of event, such as contact.created, or contact.*; repeatable."
    f" `{_ALL}`: all types.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def _past(text: str) -> int:
    """Return a time in ms since 1970, from a duration before now, or a date or time."""
    ago = durations.milliseconds(text)
    return moment(text) if ago is None else time.time_ns() // 1_000_000 - ago


@click.group()
def events() -> None:
    """Subscribe addresses to an account's events, test them, and deliver events again."""


for _verb in (resources.LIST, resources.ADD, resources.DELIVERIES, resources.REMOVE):
    events.add_command(command(_verb))


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@click.option("--url", metavar="URL", help="The new address.")
@_types
@_json
def change(
    client_id: str, subscription_id: str, url: str | None, types: tuple[str, ...], as_json: bool
) -> None:
    """Change the address or the types of a subscription. The secret stays.

    --type replaces all types.
    """
    if url is None and not types:
        raise click.UsageError("Name what to change: --url or --type.")
    chosen = _all_types(types) if types else None
    _change(client_id, subscription_id, "changed", as_json, url=url, types=chosen)


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@_json
def disable(client_id: str, subscription_id: str, as_json: bool) -> None:
    """Stop the deliveries of a subscription.

    Events that are not delivered yet fail; after `enable` they can be replayed. Events that happen
    while it is disabled are never delivered.
    """
    _change(client_id, subscription_id, "disabled", as_json, state="disabled")


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@_json
def enable(client_id: str, subscription_id: str, as_json: bool) -> None:
    """Activate a subscription that is disabled, has ended or was switched off."""
    _change(client_id, subscription_id, "active", as_json, state="active")


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@_json
@click.pass_context
def test(context: click.Context, client_id: str, subscription_id: str, as_json: bool) -> None:
    """Send a test message, and print the answer. The exit code is 1 if it was not delivered."""
    with opened_hub() as hub:
        from crmhub.operators.events import event_subscriptions

        sent = event_subscriptions.test(hub, client_id, subscription_id)
    attempt = sent.attempt
    if as_json:
        print_shown(resources.TEST, sent)
    elif attempt.succeeded:
        click.echo(f"Delivered: it answered {attempt.status} in {sent.duration_ms} ms.")
    else:
        click.echo(f"Not delivered after {sent.duration_ms} ms. {attempt.reason}")
    if not attempt.succeeded:
        context.exit(_FAILED)


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@click.option(
    "--since",
    type=_past,
    metavar="TIME",
    help="The start of the period: 12h ago, or a local date with or without time.",
)
@click.option("--until", type=_past, metavar="TIME", help="The end of the period. Default: now.")
@click.option(
    "--event", "event_ids", multiple=True, metavar="ID", help="An event's id; repeatable."
)
@_json
def replay(
    client_id: str,
    subscription_id: str,
    since: int | None,
    until: int | None,
    event_ids: tuple[str, ...],
    as_json: bool,
) -> None:
    """Deliver the events of a period again, or events by their ids.

    Events that were delivered already are delivered again, too, with the same id. Delivered events
    are kept for 7 days, failed ones for 30.
    """
    if (since is None) == (not event_ids) or (until is not None and since is None):
        raise click.UsageError("Give either --since, with --until if you like, or --event.")
    with opened_hub() as hub:
        from crmhub.operators.events import event_subscriptions

        count = event_subscriptions.replay(
            hub,
            client_id,
            subscription_id,
            since=since,
            until=until,
            event_ids=event_ids,
            by=author(),
        )
    if as_json:
        print_shown(resources.REPLAY, count)
        return
    click.echo(f"{count} {'event is' if count == 1 else 'events are'} delivered again.")


def _all_types(types: tuple[str, ...]) -> tuple[str, ...]:
    from crmhub.events.event_types import EVERY_TYPE

    return (EVERY_TYPE,) if _ALL in types else types


def _change(client_id: str, subscription_id: str, word: str, as_json: bool, **given: Any) -> None:
    """`word`: what the message calls the subscription afterwards."""
    with opened_hub() as hub:
        from crmhub.operators.events import event_subscriptions

        changed = event_subscriptions.change(hub, client_id, subscription_id, **given, by=author())
    if as_json:
        print_shown(resources.EVENT_SUBSCRIPTION, changed)
    else:
        click.echo(f"Subscription {changed.id} is {word}.")
