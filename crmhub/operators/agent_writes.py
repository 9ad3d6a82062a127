"""Writes of agents that are no actions of the journal, each with its entry in the audit log."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from crmhub import audit, idempotency
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.errors import Conflict
from crmhub.helpers import random_int
from crmhub.hub import Hub, in_transaction
from crmhub.idempotency import Answer
from crmhub.properties.kinds import COMPANIES, Kind
from crmhub.records import linking
from crmhub.records.models import Change, NewRecord, Record
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query


@in_transaction
def link(
    hub: Hub,
    tx: Connection,
    account: Account,
    kind: Kind,
    id: int,
    to: Kind,
    to_id: int,
    *,
    remove: bool,
    by: Author,
) -> None:
    """Link two records, or remove their link; raises as `linking.link` and `linking.unlink`."""
    verb: audit.Verb = "unlink" if remove else "link"
    write = linking.unlink if remove else linking.link
    write(hub.records, account, kind, id, to, to_id)
    record, after = f"{kind.name}/{id}", {"to": f"{to.name}/{to_id}"}
    audit.note(tx, by, verb, "records", record, account_id=account.id, after=after)


@in_transaction
def change(
    hub: Hub,
    tx: Connection,
    account: Account,
    kind: Kind,
    id: int,
    properties: Mapping[str, str],
    *,
    by: Author,
) -> tuple[Record, bool]:
    """Change properties as `RecordStore.update` does; return the record, and whether it changed."""
    before = hub.records.get(account, kind, id)
    [record] = hub.records.update(account, kind, [Change(id, properties)])
    # The names alone, since the audit log holds no personal data.
    names = {"properties": sorted(properties)}
    audit.note(tx, by, "change", "records", f"{kind.name}/{id}", account_id=account.id, after=names)
    return record, record.version != before.version


@in_transaction
def save_company(
    hub: Hub,
    tx: Connection,
    account: Account,
    domain: str,
    name: str,
    properties: Mapping[str, str],
    *,
    by: Author,
) -> tuple[Record, str]:
    """Change the company that `find_company` finds, or create one; return it and what was done.

    Raises as `find_company`, and the errors of the record store.
    """
    # A second call for the same company waits here until the first one has created it.
    tx.hold(account.id, exclusive=True)
    held = find_company(hub, account, domain, name)
    if held is not None:
        record, changed = change(hub, account, COMPANIES, held.id, properties, by=by)
        return record, "updated" if changed else "unchanged"
    values = {**properties, **({"domain": domain} if domain else {})}
    [record] = hub.records.create(account, COMPANIES, [NewRecord(values)])
    names = {"properties": sorted(values)}
    audit.note(
        tx, by, "create", "records", f"companies/{record.id}", account_id=account.id, after=names
    )
    return record, "created"


def find_company(hub: Hub, account: Account, domain: str, name: str) -> Record | None:
    """Return the oldest company with this domain, or without a domain the one with this name.

    Raises Conflict for several companies with the name.
    """
    by, value, form = ("domain", domain, host_of) if domain else ("name", name, str.casefold)
    found: list[Record] = []
    query = Query((Filter(by, "CONTAINS_TOKEN", value),), sort="created_at", descending=False)
    after = None
    while True:
        page = hub.records.page(account, COMPANIES, PageRequest(query, after))
        alike = hub.records.read(account, COMPANIES, [one.id for one in page.records])
        found += [one for one in alike if form(one.properties.get(by, "")) == form(value)]
        if not page.cursor or (found and domain):
            break
        after = hub.records.cursor(account, COMPANIES, page.cursor)
    if len(found) > 1 and not domain:
        raise Conflict(
            f"name: {len(found)} companies have this name; send the domain of the one that you"
            " mean."
        )
    return found[0] if found else None


_HOST = re.compile(r"([a-z0-9\u0080-\U0010ffff]([a-z0-9\u0080-\U0010ffff-]*)\.)+[^\W\d_][\w-]+")


def host_of(address: str) -> str:
    """Return the domain that an address of a website has, without www; "" for none."""
    host = address.strip().casefold().rpartition("://")[2].partition("/")[0].partition(":")[0]
    host = host.rpartition("@")[2].removeprefix("www.").rstrip(".")
    return host if _HOST.fullmatch(host) else ""


def pick(
    hub: Hub,
    account: Account,
    *,
    smallest: int,
    largest: int,
    contact_id: str,
    key: str,
    by: Author,
) -> tuple[int, bool]:
    """Draw an integer by the account's rotation; return it, and whether `key` was used before."""

    def draw() -> int:
        value = random_int.int_of_account(
            hub.database, account, smallest=smallest, largest=largest, contact_id=contact_id
        )
        drawn = {"min": smallest, "max": largest, "value": value}
        noted: dict[str, Any] = {"account_id": account.id, "after": drawn}
        hub.database.transact(lambda tx: audit.note(tx, by, "pick", "records", "rotation", **noted))
        return value

    if not key:
        return hub.database.transact(lambda _: draw()), False
    call = json.dumps([smallest, largest, contact_id])
    answer, old = idempotency.once(
        hub.database,
        account.id,
        key,
        hashlib.sha256(call.encode()).hexdigest(),
        lambda: Answer(200, (), json.dumps(draw())),
    )
    return json.loads(answer.body), old
