"""The helper assignOwner: choose an owner from a team, and set it in the CRM.

The owner is chosen in the action's first attempt, after the CRM has told the contact's present one,
and stored before anything is written: a retry, a kill or another process chooses nobody else. While
the CRM cannot be asked, the choice follows what the hub knows, so that the bot can name the owner.
It is left open only if the CRM has the contact, the present owner is to be kept, and the hub does
not know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import ClassVar

from crmhub import adapter as contract
from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter, Problem, Rejected, Written, hold_back_update, is_record_id
from crmhub.crm.connection import Broken, connect, sound
from crmhub.database.connection import Connection
from crmhub.database.rows import find_row, set_where
from crmhub.database.tables import action as action_table
from crmhub.database.tables import team_member
from crmhub.errors import HubError, NotFound, shortened
from crmhub.helpers import dispatch
from crmhub.helpers.attempts import Action, Attempt, Done, Mapped, crm_id_of, newest
from crmhub.helpers.create_linked import bind_contact, identity_of, not_found, require_possible_id
from crmhub.helpers.inputs import unfilled
from crmhub.helpers.partial_writes import refusal
from crmhub.hub import Hub
from crmhub.identity import bindings
from crmhub.identity.placeholders import is_unfilled_id
from crmhub.properties.kinds import CONTACTS, DEALS
from crmhub.queue.models import UNFINISHED, New
from crmhub.records import copied
from crmhub.records.models import Change
from crmhub.records.reading import read as read_stored
from crmhub.records.search.filters import Filter
from crmhub.records.search.pages import PageRequest
from crmhub.records.search.query import Query
from crmhub.teams import choosing
from crmhub.teams.choosing import Assignment, Choice, OpenDeals
from crmhub.teams.teams import OWNER, find_name, find_team
from crmhub.translatable import named, translatable


def assign_owner(
    hub: Hub, account: Account, action: AssignOwner, *, key: str
) -> tuple[Done, Assignment | None]:
    """Return the result with the chosen owner, None while nobody could be chosen yet.

    Raises NotFound for an unknown contact or deal, and Semantic for an unknown team, if the account
    has none, or if nobody can be chosen.
    """
    require_possible_id(hub, account, action.contact_id)
    sent = {"team": action.team.strip(), "dealId": action.deal_id.strip()}
    empty = {name: text for name, text in sent.items() if text and is_unfilled_id(text)}
    named = sent | dict.fromkeys(empty, "")
    action = replace(action, team=named["team"], deal_id=named["dealId"], unfilled=empty)
    done = dispatch.run(hub, account, action, key=key)
    return done, assignment_of(hub, account, action, done)


def assignment_of(hub: Hub, account: Account, action: AssignOwner, done: Done) -> Assignment | None:
    """Return the owner that the action has chosen; one that is queued chooses now if it can."""
    with hub.database.reading() as db:
        assignment = choosing.of_action(db, account.id, done.action_id)
    if assignment is None and done.status == "queued":
        counted = count_open_deals(hub, account, action.team)
        present = _owner_without_crm(hub, account, action.contact_id) if action.keep else None
        assignment = hub.database.transact(
            lambda tx: _choose_unasked(tx, account, action, done.action_id, counted, present)
        )
    return assignment


def _owner_without_crm(hub: Hub, account: Account, contact_id: str) -> str | None:
    """Return the contact's owner in the hub's records or copy, "" for none; None if unknown."""
    with hub.database.reading() as db:
        bound = bindings.of_contact(db, account, contact_id)
    crm_id = bound.crm_id if bound else contact_id
    with suppress(Broken, contract.AdapterError, HubError), sound():
        adapter = connect(hub, account)
        if not adapter.remote:
            return adapter.get_contact(crm_id, [OWNER]).properties.get(OWNER, "")
        if account.switches.mirror:
            found = hub.records.read_by(account, CONTACTS, copied.ID, [crm_id])
            return found[0].properties.get(OWNER, "") if found else None
    return None


def _known_owner(tx: Connection, account: Account, contact_id: str) -> str:
    """Return the contact's owner as the hub knows it without asking the CRM, or ""."""
    bound = bindings.of_contact(tx, account, contact_id)
    crm_id = bound.crm_id if bound else contact_id
    if account.connection.adapter == "local" and is_record_id(crm_id):
        stored = read_stored(tx, account.id, CONTACTS, [int(crm_id)])
        values = stored[0].record().properties if stored else {}
        return values.get(_own_name(account, "contacts"), "")
    return bound.last_values.get(OWNER, "") if bound else ""


def _choose_unasked(
    tx: Connection,
    account: Account,
    action: AssignOwner,
    action_id: str,
    open_deals: OpenDeals | None,
    present: str | None,
) -> Assignment | None:
    """Choose for a queued action by what the hub knows; `present`: the owner in its records."""
    row = find_row(tx, action_table, {"account_id": account.id, "id": action_id})
    if row is None or row.state not in UNFINISHED:
        return choosing.of_action(tx, account.id, action_id)
    known = ""
    if action.keep:
        bound = bindings.of_contact(tx, account, action.contact_id)
        known = bound.last_values.get(OWNER, "") if bound else ""
        known = choosing.last_owner(tx, account.id, row.person, row.hub_id) or present or known
        if not known and present is None and (bound is None or bound.crm_id):
            return None
    return action.choice(tx, account, action_id, open_deals).choose(None, known=known)


def open_deals_filters(hub: Hub, account: Account) -> list[Filter] | None:
    """Return the filters of a search for open deals; None if the hub cannot tell them."""
    if account.switches.mirror:
        # The stages of a copy do not tell whether they close a deal; HubSpot has this property.
        has_flag = hub.records.catalogue(account, DEALS).get("hs_is_closed") is not None
        return [Filter("hs_is_closed", "NEQ", "true")] if has_flag else None
    if account.connection.adapter != "local":
        return None
    pipelines = hub.records.catalogue(account, DEALS).pipelines
    closed = tuple(stage.id for one in pipelines for stage in one.stages if stage.closed)
    return [Filter("dealstage", "NOT_IN", values=closed)] if closed else []


def count_open_deals(hub: Hub, account: Account, team: str) -> OpenDeals | None:
    """Count the open deals of the members whose number is limited, among the hub's records."""
    with hub.database.reading() as db:
        counted_at = db.now_ms()
        found = find_team(db, account, team)
    members = [one for one in found.members if one.open_deals is not None] if found else []
    is_open = open_deals_filters(hub, account) if members else None
    if is_open is None:
        return None
    name = OWNER if account.switches.mirror else _own_name(account)
    counts = {}
    for one in members:
        owned = Filter(name, "EQ", one.owner_id)
        request = PageRequest(Query((owned, *is_open), limit=1), properties=())
        counts[one.owner_id] = hub.records.page(account, DEALS, request).total
    return OpenDeals(counts, counted_at)


@dataclass(frozen=True, slots=True)
class AssignOwner(Action):
    """`contact_id`: the hub's or the CRM's. `deal_id`: the CRM's, "" for none. `team`: "" for the
    account's first one. With `keep`, a present owner who is in the team stays. `unfilled`: the
    values without content that the builder sent for the others, by the keys of the body.
    """

    kind: ClassVar[str] = "assignOwner"
    record: ClassVar[Written] = "contacts"

    contact_id: str
    team: str = ""
    keep: bool = True
    deal_id: str = ""
    unfilled: Mapping[str, str] = field(default_factory=dict)

    def enter(self, tx: Connection, account: Account, mapped: Mapped | None) -> New:
        find_name(tx, account, self.team)
        contact_id, hub_id, person = bind_contact(tx, account, self.contact_id)
        request = asdict(replace(self, contact_id=contact_id))
        identity = identity_of(self.kind, self.team, self.keep, self.deal_id)

        def stands(earlier: str) -> bool:
            """Whether no other call has changed the owner that the earlier action has set."""
            chosen = choosing.of_action(tx, account.id, earlier)
            if chosen is None:
                return True
            now = choosing.last_owner(tx, account.id, person, hub_id) or chosen.owner_id
            row = find_row(tx, action_table, {"account_id": account.id, "id": earlier})
            if now == chosen.owner_id and row is not None and row.state not in UNFINISHED:
                now = _known_owner(tx, account, contact_id) or now
            return now == chosen.owner_id

        return New(self.kind, person, hub_id, request, identity, stands=stands)

    def mapped(self, account: Account) -> Mapped:
        return Mapped(
            {}, tuple(Problem(one, unfilled(self.unfilled[one])) for one in self.unfilled)
        )

    def check(self, account: Account, adapter: Adapter | None, mapped: Mapped) -> None:
        if account.switches.strict and mapped.refused:
            raise refusal(mapped.refused)
        if self.deal_id and adapter is not None and adapter.remote and not adapter.can("write"):
            reason = translatable("the hub cannot change deals of %(crm)s", crm=adapter.title)
            raise refusal([Problem("dealId", reason)])

    def choice(
        self, tx: Connection, account: Account, action_id: str, open_deals: OpenDeals | None
    ) -> Choice:
        return Choice(
            tx,
            account,
            action_id,
            team=self.team,
            keep=self.keep,
            deal_id=self.deal_id,
            open_deals=open_deals,
        )

    def perform(self, at: Attempt) -> Done:
        self.check(at.account, at.adapter, at.mapped)
        contact_id = crm_id_of(at)
        hold_back_update(at.adapter, at.entry.written_at)
        if OWNER not in newest(at, contact_id, {OWNER: ""}):
            return Done(
                "unchanged",
                contact_id=contact_id,
                refused=at.mapped.refused,
                message=translatable("A later call has set the owner."),
            )
        try:
            contact = at.adapter.get_contact(contact_id, [OWNER])
        except contract.NotFound as exc:
            raise not_found("contactId", exc.message) from exc
        has_owner = OWNER in contact.properties
        if not (has_owner or self.deal_id):
            words = translatable(
                "Contacts of %(crm)s have no owner. Send dealId, too.", crm=at.adapter.title
            )
            raise Rejected([Problem(OWNER, words)], words)
        deal_owner = self._read_deal(at) if self.deal_id else ""
        present = contact.properties.get(OWNER, "") if has_owner else deal_owner
        counted = count_open_deals(at.hub, at.account, self.team)
        assignment = at.hub.database.transact(
            lambda tx: self.choice(tx, at.account, at.entry.id, counted).choose(present)
        )
        is_changed = False
        while True:
            owner_id = assignment.owner_id
            try:
                if self.deal_id and deal_owner != owner_id:
                    self._write_deal(at, owner_id)
                    deal_owner, is_changed = owner_id, True
                if has_owner and present != owner_id:
                    at.adapter.update_contact(contact.id, {OWNER: owner_id})
                    is_changed = True
                break
            except Rejected as exc:
                if OWNER not in {problem.name for problem in exc.problems}:
                    raise
                assignment = self._choose_another(at, assignment, exc)
        if assignment.refused:
            at.hub.database.transact(partial(_flag, at.account, assignment))
        # An earlier attempt may have written the owner that this one found.
        is_changed = is_changed or not assignment.kept
        return Done(
            "updated" if is_changed else "unchanged",
            contact_id=contact.id,
            url=contact.url if at.adapter.record_pages else None,
            refused=at.mapped.refused,
            values={OWNER: assignment.owner_id} if has_owner else {},
        )

    def _choose_another(self, at: Attempt, refused: Assignment, exc: Rejected) -> Assignment:
        counted = count_open_deals(at.hub, at.account, self.team)
        found = at.hub.database.transact(
            lambda tx: self.choice(tx, at.account, at.entry.id, counted).choose_another(refused)
        )
        if found is None:
            raise exc
        return found

    def _read_deal(self, at: Attempt) -> str:
        """Return the deal's owner, "" if unknown; raises NotFound."""
        missing = NotFound("dealId: there is no deal %(id)s", id=shortened(self.deal_id))
        if at.adapter.remote:
            if not at.adapter.can("get_records"):
                return ""
            found = at.adapter.get_records("deals", [self.deal_id], [OWNER])
            if not found:
                raise missing
            return found[0].properties.get(OWNER, "")
        if not is_record_id(self.deal_id):
            raise missing
        deals = at.hub.records.read(at.account, DEALS, [int(self.deal_id)])
        if not deals:
            raise missing
        return deals[0].properties.get(_own_name(at.account), "")

    def _write_deal(self, at: Attempt, owner_id: str) -> None:
        try:
            if at.adapter.remote:
                at.adapter.write("deals", self.deal_id, {OWNER: owner_id})
                return
            change = Change(int(self.deal_id), {_own_name(at.account): owner_id})
            at.hub.records.update(at.account, DEALS, [change], define_unknown=True)
        except contract.NotFound as exc:
            raise NotFound(named("dealId", exc.message)) from exc


def _own_name(account: Account, kind: Written = "deals") -> str:
    return account.connection.field_map.of(kind).crm_name(OWNER) or OWNER


def _flag(account: Account, assignment: Assignment, tx: Connection) -> None:
    """Show the operator which members the CRM refused; nobody draws them until then."""
    for owner_id in assignment.refused:
        key = {"account_id": account.id, "team": assignment.team, "owner_id": owner_id}
        set_where(tx, team_member, key, problem="The CRM refused this owner.")
