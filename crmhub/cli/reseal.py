"""`crmhub db reseal`: the encryption keys of stored credentials change."""

from __future__ import annotations

from typing import TYPE_CHECKING

import rich_click as click
from click.exceptions import Exit

from crmhub.cli.output import print_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crmhub.operations.reseal_secrets import Broken


@click.command()
@click.option("--check", is_flag=True, help="Only count what is sealed with which key.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reseal(check: bool, as_json: bool) -> None:
    """Seal stored credentials anew with the first encryption key, so that the others can go.

    Safe to run again, in several processes, and beside a running service. Exits with 1 as long as
    something is sealed with another key than the first.
    """
    from crmhub.cli.open_hub import author, opened_hub

    with opened_hub() as hub:
        from crmhub.operations import reseal_secrets

        done = 0
        broken: Sequence[Broken] = ()
        if not check:
            came = reseal_secrets.reseal(hub, by=author(), told=_tell)
            done, broken = came.done, came.broken
        found = reseal_secrets.counts(hub.database)
        named = hub.vault.key_ids
    counted = {key_id: found[key_id] for key_id in (*named, *sorted(found))}
    if as_json:
        print_json({"resealed": done, "first": named[0], "sealed": counted})
    else:
        if not check:
            were = "value was" if done == 1 else "values were"
            click.echo(f"{done} {were} sealed anew with {named[0]}.")
        _print_keys(counted, named)
    for one in broken:
        click.echo(f"crmhub: {one.client_id}: {one.reason}", err=True)
    if any(count for key_id, count in counted.items() if key_id != named[0]):
        raise Exit(1)


def _tell(done: int) -> None:
    click.echo(f"{done} sealed anew so far", err=True)


def _print_keys(counted: Mapping[str, int], named: Sequence[str]) -> None:
    for key_id, count in counted.items():
        if key_id == named[0]:
            told = "the first key"
        elif key_id not in named:
            told = "CRMHUB_ENCRYPTION_KEYS does not name it: put it back, or set these anew"
        elif count:
            told = "still needed"
        else:
            told = "nothing needs it any more: take it out of CRMHUB_ENCRYPTION_KEYS"
        click.echo(f"{key_id}: {count} ({told})")
