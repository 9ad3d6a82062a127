"""`crmhub events`: the event subscriptions of an account."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal, cast

import rich_click as click

from crmhub import durations
from crmhub.cli.inputs import moment
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, print_columns, print_fields, print_json

if TYPE_CHECKING:
    from crmhub.events.deliveries import State
    from crmhub.events.subscriptions import Subscription

_ALL = "all"
# Copied from deliveries, so that `--help` does not import it.
_DELIVERY_STATES = ("queued", "delivered", "failed")
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


@events.command("list")
@click.argument("client_id")
@_json
def list_subscriptions(client_id: str, as_json: bool) -> None:
    """List an account's subscriptions with their state. Secrets are not shown."""
    with opened_hub() as hub:
        from crmhub.operators.events import event_subscriptions

        listed = event_subscriptions.listed(hub, client_id)
    if as_json:
        from crmhub.api.admin.event_answers import event_subscription_shown

        print_json([event_subscription_shown(each) for each in listed])
        return
    print_columns(
        ("ID", "URL", "STATE", "SINCE", "REASON", "TYPES"),
        [
            (
                each.id,
                each.url,
                _state(each),
                in_words(each.failing_since or each.changed_at),
                each.reason,
                " ".join(each.types),
            )
            for each in listed
        ],
    )


@events.command()
@click.argument("client_id")
@click.argument("url")
@_types
@_json
def add(client_id: str, url: str, types: tuple[str, ...], as_json: bool) -> None:
    """Subscribe URL to events, and print the secret. It is shown only once.

    Each event is a POST to the URL, signed with the secret by Standard Webhooks.
    """
    with opened_hub() as hub:
        from crmhub.operators.events import event_subscriptions

        made = event_subscriptions.add(
            hub, client_id, url=url, types=_all_types(types), by=author()
        )
    if as_json:
        from crmhub.api.admin.event_answers import new_subscription_shown

        print_json(new_subscription_shown(made))
        return
    subscription = made.subscription
    print_fields(
        (
            ("Subscription", subscription.id),
            ("URL", subscription.url),
            ("Types", ", ".join(subscription.types)),
            ("Secret", made.secret),
        )
    )
    click.echo("\nThe secret is not shown again: store it now.")


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
    with opened_hub() as hub:
        from crmhub.operators.events import event_subscriptions

        changed = event_subscriptions.change(
            hub,
            client_id,
            subscription_id,
            url=url,
            types=_all_types(types) if types else None,
            by=author(),
        )
    _print_changed(changed, f"Subscription {changed.id} is changed.", as_json)


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@_json
def disable(client_id: str, subscription_id: str, as_json: bool) -> None:
    """Stop the deliveries of a subscription.

    Events that are not delivered yet fail; after `enable` they can be replayed. Events that happen
    while it is disabled are never delivered.
    """
    changed = _set_state(client_id, subscription_id, "disabled")
    _print_changed(changed, f"Subscription {changed.id} is disabled.", as_json)


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@_json
def enable(client_id: str, subscription_id: str, as_json: bool) -> None:
    """Activate a subscription that is disabled, has ended or was switched off."""
    changed = _set_state(client_id, subscription_id, "active")
    _print_changed(changed, f"Subscription {changed.id} is active.", as_json)


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@_json
@click.pass_context
def test(context: click.Context, client_id: str, subscription_id: str, as_json: bool) -> None:
    """Send a test message, and print the answer. The exit code is 1 if it was not delivered."""
    with opened_hub() as hub:
        from crmhub.api.public.event_subscriptions import test_shown
        from crmhub.operators.events import event_subscriptions

        sent = event_subscriptions.test(hub, client_id, subscription_id)
    attempt = sent.attempt
    if as_json:
        print_json(test_shown(sent))
    elif attempt.succeeded:
        click.echo(f"Delivered: it answered {attempt.status} in {sent.duration_ms} ms.")
    else:
        click.echo(f"Not delivered after {sent.duration_ms} ms. {attempt.reason}")
    if not attempt.succeeded:
        context.exit(_FAILED)


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@click.option("--state", type=click.Choice((*_DELIVERY_STATES, _ALL)), default=_ALL)
@click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True)
@_json
def deliveries(client_id: str, subscription_id: str, state: str, limit: int, as_json: bool) -> None:
    """List the deliveries of a subscription, the newest event first."""
    with opened_hub() as hub:
        from crmhub.operators.events import event_subscriptions

        listed = event_subscriptions.list_deliveries(
            hub,
            client_id,
            subscription_id,
            state=None if state == _ALL else cast("State", state),
            limit=limit,
        )
    if as_json:
        from crmhub.api.admin.event_answers import EventDeliveryShown

        print_json(EventDeliveryShown(many=True).dump(listed))
        return
    print_columns(
        ("EVENT", "TYPE", "SUBJECT", "CREATED", "STATE", "ATTEMPTS", "NEXT ATTEMPT", "REASON"),
        [
            (
                each.event_id,
                each.type,
                each.subject,
                in_words(each.created_at),
                each.state,
                str(each.attempts),
                in_words(each.next_attempt_at, never="–"),
                each.reason,
            )
            for each in listed
        ],
    )


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@click.option(
    "--since",
    type=_past,
    metavar="TIME",
    help="The start of the period: 12h ago, or a date with or without time (UTC).",
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

        of = (hub, client_id, subscription_id)
        count = event_subscriptions.replay(
            *of, event_ids=event_ids, since=since, until=until, by=author()
        )
    if as_json:
        print_json({"events": count})
        return
    click.echo(f"{count} {'event is' if count == 1 else 'events are'} delivered again.")


@events.command()
@click.argument("client_id")
@click.argument("subscription_id")
@click.option("--yes", is_flag=True, help="Remove it without asking.")
def remove(client_id: str, subscription_id: str, yes: bool) -> None:
    """Remove a subscription with its deliveries. This cannot be undone."""
    with opened_hub() as hub:
        from crmhub.operators.events import event_subscriptions

        found = event_subscriptions.find(hub, client_id, subscription_id)
        if not yes:
            click.confirm(f"Remove the subscription of {found.url}?", abort=True)
        event_subscriptions.remove(hub, client_id, subscription_id, by=author())
    click.echo(f"Subscription {subscription_id} is removed.")


def _all_types(types: tuple[str, ...]) -> tuple[str, ...]:
    from crmhub.events.event_types import EVERY_TYPE

    return (EVERY_TYPE,) if _ALL in types else types


def _set_state(
    client_id: str, subscription_id: str, state: Literal["active", "disabled"]
) -> Subscription:
    with opened_hub() as hub:
        from crmhub.operators.events import event_subscriptions

        return event_subscriptions.change(hub, client_id, subscription_id, state=state, by=author())


def _print_changed(changed: Subscription, message: str, as_json: bool) -> None:
    if as_json:
        from crmhub.api.admin.event_answers import event_subscription_shown

        print_json(event_subscription_shown(changed))
        return
    click.echo(message)


def _state(subscription: Subscription) -> str:
    if subscription.state == "active" and subscription.failing_since:
        return "failing"
    return subscription.state.replace("_", " ")
