"""Writes of agents to records that no helper writes.

Those of the hub's own records have an entry in the audit log. Those of an account with a copy are
made in its CRM, as actions of the journal.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from crmhub import audit, idempotency
from crmhub.accounts.accounts import Account
from crmhub.audit import Author
from crmhub.database.connection import Connection
from crmhub.errors import Conflict, Semantic
from crmhub.helpers import random_int
from crmhub.helpers.crm_records import CrmRecords, Deferred
from crmhub.helpers.record_writes import WriteCompany
from crmhub.hub import Hub
from crmhub.idempotency import Answer
from crmhub.operators.actions import action_queries
from crmhub.operators.actions.action_queries import Wanted
from crmhub.properties.kinds import COMPANIES, Kind
from crmhub.queue.schedule import KEY_MS
from crmhub.records import linking
from crmhub.records.models import Change, NewRecord, Record
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query


def link(
    hub: Hub,
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
    if account.switches.mirror:
        _crm(hub, by).link(account, kind, id, to, to_id, removes=remove)
        return

    def write(tx: Connection) -> None:
        verb: audit.Verb = "unlink" if remove else "link"
        change_link = linking.unlink if remove else linking.link
        change_link(hub.records, account, kind, id, to, to_id)
        _note(tx, account, verb, f"{kind.name}/{id}", {"to": f"{to.name}/{to_id}"}, by)

    hub.database.transact(write)


def change(
    hub: Hub, account: Account, kind: Kind, id: int, properties: Mapping[str, str], *, by: Author
) -> tuple[Record, bool]:
    """Change properties as `RecordStore.update` does; return the record, and whether it changed."""
    changes = [Change(id, properties)]
    if account.switches.mirror:
        before = hub.records.get(account, kind, id)
        [record] = _crm(hub, by).update(account, kind, changes)
        # The CRM itself may have changed others, such as the time of the change.
        old, new = before.properties, record.properties
        return record, any(old.get(name) != new.get(name) for name in properties)

    def write(tx: Connection) -> tuple[Record, bool]:
        before = hub.records.get(account, kind, id)
        [record] = hub.records.update(account, kind, changes)
        _note(tx, account, "change", f"{kind.name}/{id}", _names(properties), by)
        return record, record.version != before.version

    return hub.database.transact(write)


def save_company(
    hub: Hub,
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
    if account.switches.mirror:
        return _save_in_crm(hub, account, domain, name, properties, by)

    def write(tx: Connection) -> tuple[Record, str]:
        # A second call for the same company waits here until the first one has created it.
        tx.hold(account.id, exclusive=True)
        held = find_company(hub, account, domain, name)
        if held is not None:
            return _change_company(hub, account, held, properties, by)
        values = _with_domain(properties, domain)
        [record] = hub.records.create(account, COMPANIES, [NewRecord(values)])
        _note(tx, account, "create", f"companies/{record.id}", _names(values), by)
        return record, "created"

    return hub.database.transact(write)


def _change_company(
    hub: Hub, account: Account, held: Record, properties: Mapping[str, str], by: Author
) -> tuple[Record, str]:
    if not properties:
        return held, "unchanged"
    record, changed = change(hub, account, COMPANIES, held.id, properties, by=by)
    return record, "updated" if changed else "unchanged"


def _save_in_crm(
    hub: Hub,
    account: Account,
    domain: str,
    name: str,
    properties: Mapping[str, str],
    by: Author,
) -> tuple[Record, str]:
    held = find_company(hub, account, domain, name)
    if held is not None:
        return _change_company(hub, account, held, properties, by)
    values = _with_domain(properties, domain)
    # Of calls at once, the journal accepts the first one; the key is the company's, not the call's.
    key = f"company {domain or name.casefold()}"
    try:
        try:
            [record] = _crm(hub, by, key=key).create(account, COMPANIES, [NewRecord(values)])
        except Semantic as exc:
            if exc.action_id or not _was_refused(hub, account, values):
                raise
            # The CRM refused other values of this company; these may be the right ones.
            key += hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()
            [record] = _crm(hub, by, key=key).create(account, COMPANIES, [NewRecord(values)])
    except (Deferred, Semantic) as exc:
        # Another call may have created it meanwhile, maybe with other properties.
        held = find_company(hub, account, domain, name)
        if held is not None:
            return _change_company(hub, account, held, properties, by)
        if isinstance(exc, Deferred) and _is_done(hub, account, exc.action_ids[0]):
            raise Conflict(
                "domain: the action %(action)s created this company within the last"
                " day. Repeat the call in a minute; if it is refused again, the"
                " company was archived in the CRM: restore it there.",
                action=exc.action_ids[0],
            ) from None
        raise
    return record, "created"


def _was_refused(hub: Hub, account: Account, values: Mapping[str, str]) -> bool:
    """Return whether each creation of this company in the last day was refused."""
    wanted = Wanted(account=account, kinds=(WriteCompany.kind,), newer_than_ms=KEY_MS)
    states = {
        one.summary.state
        for one in action_queries.listed_whole(hub.database, wanted, limit=action_queries.MOST)
        if not one.request.get("record_id")
        and all(
            one.request.get("properties", {}).get(name) == values.get(name)
            for name in (("domain",) if "domain" in values else ("name",))
        )
    }
    return states == {"refused"}


def _is_done(hub: Hub, account: Account, action_id: str) -> bool:
    action = action_queries.shown(hub.database, action_id, account)
    return bool(action.summary.state == "done")


def _crm(hub: Hub, by: Author, *, key: str = "") -> CrmRecords:
    return CrmRecords(hub, key=key, author=by.id or by.name, may_wait=True)


def _with_domain(properties: Mapping[str, str], domain: str) -> dict[str, str]:
    return {**properties, **({"domain": domain} if domain else {})}


def _names(properties: Mapping[str, str]) -> dict[str, Any]:
    """The names alone, since the audit log holds no personal data."""
    return {"properties": sorted(properties)}


def _note(
    tx: Connection,
    account: Account,
    verb: audit.Verb,
    record: str,
    after: Mapping[str, Any],
    by: Author,
) -> None:
    audit.note(tx, by, verb, "records", record, account_id=account.id, after=after)


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
            "name: %(found)s companies have this name; send the domain of the one that you mean.",
            found=len(found),
        )
    return found[0] if found else None


_HOST = re.compile(r"([a-z0-9\u0080-\U0010ffff]([a-z0-9\u0080-\U0010ffff-]*)\.)+[^\W\d_][\w-]+")


def host_of(address: str) -> str:
    """Return the domain that an address of a website has, without www; "" for none."""
    host = re.split(r"[/?#:]", address.strip().casefold().rpartition("://")[2])[0]
    host = host.rpartition("@")[2].removeprefix("www.").rstrip(".")
    with suppress(UnicodeError):
        # Punycode names the same domain as its letters.
        host = host.encode("ascii").decode("idna")
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
