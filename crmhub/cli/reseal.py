"""`crmhub db reseal`: encrypt the stored credentials with the first encryption key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.output import print_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crmhub.operators.database.reseal_secrets import Broken


@click.command()
@click.option("--check", is_flag=True, help="Only count the sealed values per key.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reseal(check: bool, as_json: bool) -> None:
    """Reseal the stored credentials with the first encryption key, so that old keys can be removed.

    Safe to run again, in several processes, and while the service runs. Exits with 1 while a value
    is still sealed with another key.
    """
    from crmhub.cli.open_hub import author, opened_hub

    with opened_hub() as hub:
        from crmhub.operators.database import reseal_secrets

        done = 0
        broken: Sequence[Broken] = ()
        if not check:
            result = reseal_secrets.reseal(hub, by=author(), report=_report)
            done, broken = result.done, result.broken
        counts = reseal_secrets.counts(hub.database)
        key_ids = hub.vault.key_ids
    counts_by_key = {key_id: counts[key_id] for key_id in (*key_ids, *sorted(counts))}
    if as_json:
        print_json({"resealed": done, "first": key_ids[0], "sealed": counts_by_key})
    else:
        if not check:
            were = "value was" if done == 1 else "values were"
            click.echo(f"{done} {were} resealed with {key_ids[0]}.")
        _print_keys(counts_by_key, key_ids)
    for secret in broken:
        click.echo(f"crmhub: {secret.client_id}: {secret.reason}", err=True)
    if any(count for key_id, count in counts_by_key.items() if key_id != key_ids[0]):
        raise Exit(1)


def _report(done: int) -> None:
    click.echo(f"{done} resealed so far", err=True)


def _print_keys(counts_by_key: Mapping[str, int], key_ids: Sequence[str]) -> None:
    for key_id, count in counts_by_key.items():
        if key_id == key_ids[0]:
            advice = "the first key"
        elif key_id not in key_ids:
            advice = "missing from CRMHUB_ENCRYPTION_KEYS: add it, or enter these secrets again"
        elif count:
            advice = "still needed"
        else:
            advice = "no longer needed: remove it from CRMHUB_ENCRYPTION_KEYS"
        click.echo(f"{key_id}: {count} ({advice})")
