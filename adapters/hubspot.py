"""HubSpot: contacts, deals and tickets over its CRM API, with an access token or OAuth.

What is not obvious about HubSpot, with its source, stands beside the code that minds it. What
matters most: its search lags behind writes by up to half a minute, so a contact is read by email
(`idProperty=email`), which does not, and a lead is never searched for and then created; an upsert
by email is not partial, so what exists is patched.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, ClassVar, TypeVar

from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    Choice,
    Conflict,
    Contact,
    Context,
    Denied,
    Described,
    Kind,
    LacksRight,
    Lead,
    Linked,
    Match,
    NotFound,
    NotYet,
    Outcome,
    Owner,
    Pipeline,
    Problem,
    PropertyType,
    Rejected,
    Saved,
    Setting,
    Throttled,
    Unavailable,
    Uncertain,
    Written,
    decide,
)
from crmhub.adapter.coercion import fitted
from crmhub.adapter.http import GENERAL, Answer, Http, usual_failure
from crmhub.adapter.oauth import KEPT, Grant
from crmhub.adapter.phones import national, notations, same
from crmhub.adapter.places import place
from crmhub.adapter.remembered import HOUR, Remembered

T = TypeVar("T")
U = TypeVar("U")

_SEARCH = "search"
_OAUTH = "oauth"
_OAUTH_SECRETS = ("client_id", "client_secret", "refresh_token")
# Without headers to follow: what HubSpot allows everybody. developers.hubspot.com, usage
# guidelines: 100 calls in 10 s for each app; 5 searches in a second for each account, which other
# apps share.
_CALLS, _CALLS_SECONDS = 100, 10.0
_SEARCHES = 4
_BATCH = 100
_SEARCH_LAG_S = 60
"""A record that a search does not show so long after its write does not exist."""
_UNDER_WAY_S = 30
"""A write whose answer got lost may still be under way for so long."""
# HubSpot takes 3,000 characters in a search (its search guide), and an unknown number in an
# address, which its edge and proxies on the way limit.
_SEARCH_BODY, _LONGEST_QUERY = 2_900, 2_000
_STALE_S = 30.0
"""Definitions younger than this are not read again because of a value that does not fit."""
# Where HubSpot does not say how long to wait. Its day ends at midnight of the account's zone.
_DAILY_S, _LOCKED_S = 900.0, 2.0
_SPARE_S = 1.0
"""With less time left, nothing is asked only to know the address of a record's page."""
_SHOWN = 300
_COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
_ID = re.compile(r"[0-9]{1,20}", re.ASCII)
_EXISTING_ID = re.compile(r"Existing ID:\s*([0-9]+)|(?<![0-9])([0-9]+) already has that value")
_NO_DIGIT = re.compile(r"[^0-9]+", re.ASCII)
_TRACE = "objectWriteTraceId"
_LIFECYCLE = "lifecyclestage"
_OWNER = "hubspot_owner_id"

_PLACES: Mapping[str, tuple[str, str]] = {
    "deals": ("pipeline", "dealstage"),
    "tickets": ("hs_pipeline", "hs_pipeline_stage"),
}
# The direction counts: contact to deal is another type than deal to contact.
_TO_CONTACT: Mapping[Linked, int] = {"deals": 3, "tickets": 16}
_TYPE_IDS: Mapping[Kind, str] = {
    "contacts": "0-1",
    "companies": "0-2",
    "deals": "0-3",
    "tickets": "0-5",
}
# Plain text in every account: writing them needs no look at the definitions, which are large.
_PLAIN = frozenset(
    {"email", "firstname", "lastname", "phone", "mobilephone", "company", "jobtitle"}
    | {"address", "city", "state", "zip", "country", "website", "message"}
)
# Of a contact it wants one of these.
_CALLED = ("email", "firstname", "lastname")
_PHONES = ("phone", "mobilephone")
# HubSpot keeps these itself, without the country code, and searches them.
_CALCULATED_PHONES = (
    "hs_searchable_calculated_phone_number",
    "hs_searchable_calculated_mobile_number",
)
_TYPES: Mapping[str, PropertyType] = {
    "bool": "bool",
    "date": "date",
    "datetime": "datetime",
    "enumeration": "enumeration",
    "number": "number",
    "phone_number": "phone",
}
# What a string or a number is shown as, and so is meant for.
_HINTS: Mapping[str, PropertyType] = {
    "email": "email",
    "phone_number": "phone",
    "phonenumber": "phone",
    "physical_address": "text",
    "textarea": "text",
    "html": "text",
}
_SCOPES: Mapping[Kind, tuple[str, str]] = {
    "contacts": ("crm.objects.contacts.read", "crm.objects.contacts.write"),
    "deals": ("crm.objects.deals.read", "crm.objects.deals.write"),
    "tickets": ("tickets", "tickets"),
}


class HubSpotAdapter(Adapter):
    """HubSpot's CRM API in its dated versions and in v3.

    `active_workflow` is not announced: no version tells which workflows a contact has entered, so
    the hub's own enrolments count.
    """

    title = "HubSpot"
    record_pages = True
    batch_size = _BATCH
    settings: ClassVar[tuple[Setting, ...]] = (
        Setting("base_url", "API address", "url", default="https://api.hubapi.com"),
        Setting(
            "api_version",
            "API version",
            choices=("2026-09", "2026-03", "v3"),
            default="2026-09",
            help="HubSpot supports a dated version for 18 months, and v3 until September 2027.",
        ),
        Setting(
            "mark_property",
            "Property for the hub's marks",
            default="crmhub_mark",
            help="A text property of deals, tickets and contacts, best with unique values, that"
            " tells what the hub has written; an account without it works too.",
        ),
        Setting(
            "access_token",
            "Access token",
            help="Of a service key or private app. Instead of it, the three of OAuth below.",
            secret=True,
        ),
        Setting("client_id", "OAuth client id", secret=True),
        Setting("client_secret", "OAuth client secret", secret=True),
        Setting("refresh_token", "OAuth refresh token", secret=True),
        Setting(KEPT, "OAuth access token", secret=True, kept=True),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        oauth = bool(context.credentials["refresh_token"])
        self._grant = Grant(context, self.title, self._exchange) if oauth else None
        self._version = context.settings["api_version"]
        self._mark = context.settings["mark_property"]
        budgets = {
            GENERAL: context.budget(GENERAL, calls=_CALLS, seconds=_CALLS_SECONDS),
            _SEARCH: context.budget(_SEARCH, calls=_SEARCHES, seconds=1.0),
            _OAUTH: context.budget(_OAUTH, calls=_CALLS, seconds=_CALLS_SECONDS),
        }
        self._general = budgets[GENERAL]
        self._http = Http(
            context,
            context.settings["base_url"],
            crm=self.title,
            authorize=self._authorization,
            renew=self._grant.renew if self._grant else lambda: False,
            failure=_failure,
            budgets=budgets,
            heed=self._heed,
            secrets=self._secrets,
            correlation_header="x-hubspot-correlation-id",
        )
        self._clock_ahead = 0.0
        self._calculated_phones = True

        def kept(load: Callable[[T], U], kinds: Iterable[T]) -> dict[T, Remembered[U]]:
            return {kind: Remembered(partial(load, kind), context) for kind in kinds}

        self._definitions = kept(self._load_definitions, _TYPE_IDS)
        self._pipelines = kept(self._load_pipelines, _TO_CONTACT)
        self._marks = kept(self._load_mark, _TYPE_IDS)
        self._owners = Remembered(self._load_owners, context)
        self._account = Remembered(self._load_account, context)

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> str:
        oauth = [bool(credentials[name]) for name in _OAUTH_SECRETS]
        if all(oauth) != any(oauth) or all(oauth) == bool(credentials["access_token"]):
            return f"give either the secret access_token, or all of {', '.join(_OAUTH_SECRETS)}"
        return ""

    # Contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        """Read by email, which never lags; by phone only HubSpot's search can look."""
        if not email:
            return self._by_phone([phone], names).get(phone)
        try:
            return self._contact(email, names, by="email")
        except NotFound:
            return None

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        _check_id(contact_id)
        return self._contact(contact_id, names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create it; a phone alone, which HubSpot does not take, is the first name, too."""
        try:
            return self._created("contacts", properties, mark, [])
        except Rejected as refused:
            told = {problem.name for problem in refused.problems}
            phone = next(filter(None, map(properties.get, _PHONES)), "")
            called = any(map(properties.get, _CALLED))
            if called or not phone or told & properties.keys():
                raise
        return self._created("contacts", {**properties, "firstname": phone}, mark, [])

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        _check_id(contact_id)

        def send(sent: Mapping[str, str]) -> Saved:
            path = self._objects("contacts", contact_id)
            answer = self._http.send("PATCH", *path, body={"properties": sent})
            return self._updated(answer, answer.object(), sent)

        return self._written("contacts", properties, send)

    def match(self, lead: Lead) -> Match:
        """Return where a lead belongs, and its values as HubSpot takes them."""
        return self._settled(lead, super().match(lead))

    def has_phone(self, contact: Contact, phone: str) -> bool:
        """Tell it in every notation: an account may have HubSpot write numbers its own way."""
        return _has_number(contact.properties, phone)

    # Deals and tickets.

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create the record and its link in one call, so that neither can be without the other."""
        _check_id(contact_id)
        link = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": _TO_CONTACT[kind]}
        links = [{"to": {"id": contact_id}, "types": [link]}]
        return self._created(kind, properties, mark, links)

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        """Look by the mark where the account has a unique property for it.

        Else a contact is looked up by its email or, once the search must show it, its phone; a
        deal or ticket among the contact's own.
        """
        if kind != "contacts":
            return self.find_apart(kind, contact_id, mark, sent=sent, since_ms=since_ms, others=())
        unique, marked = self._kept_mark(kind, mark)
        if unique:
            return self._by_mark(kind, mark)
        return self._contact_written(marked, sent, since_ms)

    def find_apart(
        self,
        kind: Linked,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        """Look up a deal or ticket as `find_marked` does, but among what is not of others."""
        unique, marked = self._kept_mark(kind, mark)
        if unique:
            return self._by_mark(kind, mark)
        return self._linked_record(kind, contact_id, marked, sent, since_ms, others)

    def _kept_mark(self, kind: Written, mark: str) -> tuple[bool, Mapping[str, str]]:
        """Return whether the mark is unique in the account, and the property that holds it."""
        definition = self._mark_definition(kind) if mark else None
        unique = definition is not None and bool(definition.get("hasUniqueValue"))
        return unique, ({self._mark: mark} if definition else {})

    # Leads in bulk.

    def upsert_contacts(self, leads: Sequence[Lead]) -> list[Saved | AdapterError]:
        """Upsert with one read, one update and one create for all that need no closer look.

        An upsert by email would reset what is not sent (HubSpot: not partial), and a batch
        without trace ids is all or nothing, so each input carries one.
        """
        return _Batch(self, leads).run()

    # What HubSpot says about itself.

    def check(self) -> None:
        """Try every right that is needed; the first refusal of the credentials ends it."""
        missing: list[str] = []
        for kind, (reads, writes) in _SCOPES.items():
            self._try(missing, reads, "GET", self._objects(kind), params={"limit": "1"})
            path = self._objects(kind, "batch", "update")
            # HubSpot looks at the rights first; without any input there is nothing to be written.
            with suppress(Rejected):
                self._try(missing, writes, "POST", path, body={"inputs": []})
        reads = "crm.objects.owners.read"
        self._try(missing, reads, "GET", self._area("owners"), params={"limit": "1"})
        if missing:
            raise LacksRight(
                "The access token lacks rights in HubSpot; give it the scopes"
                f" {', '.join(dict.fromkeys(missing))}."
            )

    def _try(
        self, missing: list[str], scope: str, method: str, path: Sequence[str], **options: Any
    ) -> None:
        try:
            self._listed(method, *path, **options).items()
        except _MissingScopes:
            missing.append(scope)

    def describe(self, kind: Kind) -> list[Described]:
        known = self._definitions[kind].get()
        return [self._with_options(kind, one, HOUR) for one in known.values()]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        return self._pipelines[kind].get()

    def owners(self) -> list[Owner]:
        return self._owners.get()

    # Paths of the API's versions.

    def _objects(self, kind: str, *rest: str) -> tuple[str, ...]:
        if self._version == "v3":
            return ("crm", "v3", "objects", kind, *rest)
        return ("crm", "objects", self._version, kind, *rest)

    def _area(self, area: str, *rest: str) -> tuple[str, ...]:
        if self._version == "v3":
            return ("crm", "v3", area, *rest)
        return ("crm", area, self._version, *rest)

    # Credentials, budgets, failures.

    def _authorization(self) -> dict[str, str]:
        token = self._grant.token() if self._grant else self.context.credentials["access_token"]
        return {"Authorization": f"Bearer {token}"}

    def _exchange(self, credentials: Mapping[str, str]) -> Answer:
        form = {name: credentials.get(name, "") for name in _OAUTH_SECRETS}
        return self._http.send(
            "POST",
            "oauth",
            self._version,
            "token",
            form={"grant_type": "refresh_token", **form},
            lane=_OAUTH,
            reads=True,
            anonymous=True,
        )

    def _secrets(self) -> Iterable[str]:
        return self._grant.secrets() if self._grant else self.context.credentials.values()

    def _heed(self, lane: str, answer: Answer) -> None:
        """Follow the limit that HubSpot names (not on searches), and its clock."""
        limit = answer.headers.get("X-HubSpot-RateLimit-Max", "")
        window = answer.headers.get("X-HubSpot-RateLimit-Interval-Milliseconds", "")
        if lane == GENERAL and _COUNT.fullmatch(limit) and _COUNT.fullmatch(window):
            self._general.follow(int(limit), int(window) / 1000)
        try:
            sent = parsedate_to_datetime(answer.headers.get("Date", "")).timestamp()
        except (ValueError, OverflowError):
            return
        self._clock_ahead = sent - time.time()

    # Reading.

    def _get(self, kind: str, key: str, params: Mapping[str, str]) -> Answer:
        return self._http.send("GET", *self._objects(kind, key), params=params or None)

    def _listed(self, method: str, *path: str, absent: bool = False, **options: Any) -> Answer:
        """Return an answer with a whole list of results; raises Unavailable for anything less.

        `absent` says that what does not exist may be lacking.
        """
        try:
            answer = self._http.send(method, *path, reads=True, **options)
        except NotFound:
            raise Unavailable(
                "HubSpot has no such list; the connection's base_url or api_version may be wrong."
            ) from None
        failed = _objects_in(answer.object().get("errors"))
        lacking = absent and all(_code(one, "category") == "OBJECT_NOT_FOUND" for one in failed)
        if answer.status != 200 and not lacking:
            raise answer.broken("a whole list was expected")
        return answer

    def _contact(self, key: str, names: Sequence[str], *, by: str = "") -> Contact:
        params = {"idProperty": by} if by else {}
        if names:
            params["properties"] = ",".join(names)
        try:
            if len(params.get("properties", "")) <= _LONGEST_QUERY:
                answer = self._get("contacts", key, params)
                return self._contact_of(answer, answer.object(), names)
        except _TooLong:
            pass
        for contact in self._contacts([key], names, by=by):
            return contact
        raise _no_contact()

    def _contacts(
        self, keys: Sequence[str], names: Sequence[str], *, by: str = ""
    ) -> list[Contact]:
        """Return those of the contacts that there are, in no order."""
        return [
            self._contact_of(answer, record, names)
            for answer in self._batch_reads("contacts", keys, names, by=by)
            for record in answer.items()
        ]

    def _batch_reads(
        self, kind: str, ids: Sequence[str], names: Iterable[str], *, by: str = ""
    ) -> Iterator[Answer]:
        body: dict[str, Any] = {"properties": list(names), "propertiesWithHistory": []}
        if by:
            body["idProperty"] = by
        path = self._objects(kind, "batch", "read")
        for start in range(0, len(ids), _BATCH):
            inputs = [{"id": one} for one in ids[start : start + _BATCH]]
            yield self._listed("POST", *path, absent=True, body={"inputs": inputs, **body})

    def _contact_of(
        self, answer: Answer, record: Mapping[str, Any], names: Sequence[str]
    ) -> Contact:
        # What the contact does not have comes as null, what HubSpot does not know not at all.
        values = answer.mapping(record.get("properties"))
        known = {name: _text(values[name]) for name in names if name in values}
        found = answer.id(record)
        return Contact(found, known, self._page("contacts", found, record))

    def _by_phone(self, phones: Sequence[str], names: Sequence[str]) -> dict[str, Contact]:
        """Return the oldest contact of each of these phones.

        The search tells their ids only: it lags, and what it says of a contact may be of before.
        """
        held = self._holders(phones)
        ids = list(dict.fromkeys(one for found in held.values() for one in found))
        wanted = list(dict.fromkeys((*names, *_PHONES)))
        contacts = {one.id: one for one in self._contacts(ids, wanted)}
        found: dict[str, Contact] = {}
        for phone, holders in held.items():
            for contact in (contacts[one] for one in holders if one in contacts):
                if _has_number(contact.properties, phone):
                    only = {n: v for n, v in contact.properties.items() if n in names}
                    found.setdefault(phone, replace(contact, properties=only))
        return found

    def _holders(self, phones: Sequence[str]) -> dict[str, list[str]]:
        """Return the ids of the contacts that the search knows with each phone, oldest first."""
        if self._calculated_phones:
            try:
                return self._searched(phones, calculated=True)
            except Rejected:
                pass
        # An account without what HubSpot calculates is searched by what was typed in.
        held = self._searched(phones, calculated=False)
        self._calculated_phones = False
        return held

    def _searched(self, phones: Sequence[str], *, calculated: bool) -> dict[str, list[str]]:
        held: dict[str, list[str]] = {}
        path = self._objects("contacts", "search")
        for groups, some in _searches(phones, calculated=calculated):
            body, after = _search_body(groups), "0"
            while after:
                answer = self._listed("POST", *path, body=body | {"after": after}, lane=_SEARCH)
                for record in answer.items():
                    # The number without its country code is found in other countries, too.
                    numbers = answer.mapping(record.get("properties"))
                    for phone in some:
                        if _has_number(numbers, phone):
                            held.setdefault(phone, []).append(answer.id(record))
                after = _next(answer, after=after)
        return held

    # Writing.

    def _created(
        self, kind: Written, properties: Mapping[str, str], mark: str, links: Sequence[Any]
    ) -> Saved:
        def send(sent: Mapping[str, str]) -> Saved:
            filled = {name: value for name, value in sent.items() if value}
            body = {"properties": filled, "associations": links}
            answer = self._http.send("POST", *self._objects(kind), body=body)
            return self._saved(kind, answer, answer.object(), "created")

        try:
            return self._written(kind, properties, send, mark=mark)
        except Conflict as clash:
            # What has this mark already is what an earlier try of this write has made.
            earlier = self._by_mark(kind, mark) if clash.name == self._mark else None
            if earlier is None:
                raise
            return earlier

    def _written(
        self,
        kind: Written,
        properties: Mapping[str, str],
        send: Callable[[Mapping[str, str]], Saved],
        *,
        mark: str = "",
    ) -> Saved:
        """Send the properties as HubSpot takes them; raises Rejected with every misfit."""
        sent = self._fitted(kind, properties) | self._marked(kind, mark)
        try:
            return send(sent)
        except Rejected as refused:
            told = {problem.name: problem.reason for problem in refused.problems}
            if not told.keys() & sent.keys():
                raise
            # HubSpot knows what has changed since its definitions were read.
            again = self._fitted(kind, properties, newer_than=_STALE_S)
            faulty = bool(mark) and self._mark in told
            again |= self._marked(kind, mark, newer_than=0.0 if faulty else _STALE_S)
            if faulty and self._mark in again:
                raise self._takes_no_mark(kind, told[self._mark]) from refused
            if again == sent:
                raise
        return send(again)

    def _saved(
        self, kind: Kind, answer: Answer, record: Mapping[str, Any], outcome: Outcome
    ) -> Saved:
        found = answer.id(record)
        return Saved(found, outcome, self._page(kind, found, record))

    def _updated(self, answer: Answer, record: Mapping[str, Any], sent: Mapping[str, str]) -> Saved:
        """Return the contact as saved, and what HubSpot passed over although it said nothing."""
        saved = self._saved("contacts", answer, record, "updated")
        values = record.get("properties")
        held = _text(values.get(_LIFECYCLE)) if isinstance(values, dict) else ""
        if held and sent.get(_LIFECYCLE) and held != sent[_LIFECYCLE]:
            outcome: Outcome = "unchanged" if len(sent) == 1 else "updated"
            return replace(saved, outcome=outcome, refused=(_no_step_back(held),))
        return saved

    def _settled(self, lead: Lead, match: Match) -> Match:
        """Return the match with its values as HubSpot takes them.

        HubSpot passes over in silence a lifecycle stage before the present one; that is refused.
        """
        fit = self._fitted("contacts", match.properties)
        known = match.contact.properties if match.contact else {}
        held, wanted = known.get(_LIFECYCLE, ""), fit.get(_LIFECYCLE, "")
        if not held or not wanted or not self._goes_back(held, wanted):
            return replace(match, properties=fit)
        if lead.strict:
            raise Rejected([_no_step_back(held)])
        del fit[_LIFECYCLE]
        return replace(match, properties=fit, refused=(*match.refused, _no_step_back(held)))

    def _goes_back(self, held: str, wanted: str) -> bool:
        described = self._definitions["contacts"].get().get(_LIFECYCLE)
        stages = [one.value for one in described.options] if described else []
        return {held, wanted} <= set(stages) and stages.index(wanted) < stages.index(held)

    # Values as HubSpot takes them.

    def _fitted(
        self, kind: Kind, properties: Mapping[str, str], *, newer_than: float = HOUR
    ) -> dict[str, str]:
        """Return the properties as HubSpot takes them, those of a deal or ticket with its place."""
        if kind == "contacts" and properties.keys() <= _PLAIN:
            return dict(properties)
        try:
            return self._fit(kind, properties, newer_than)
        except Rejected:
            # Maybe defined, or given another option, since that was read.
            return self._fit(kind, properties, _STALE_S)

    def _fit(self, kind: Kind, properties: Mapping[str, str], newer_than: float) -> dict[str, str]:
        problems: list[Problem] = []
        fit: dict[str, str] = {}
        try:
            fit = self._fit_values(kind, _unplaced(kind, properties), newer_than)
        except Rejected as exc:
            problems += exc.problems
        if kind in ("deals", "tickets"):
            try:
                fit |= self._place(kind, properties, newer_than)
            except Rejected as exc:
                problems += exc.problems
        if problems:
            raise Rejected(problems)
        return fit

    def _fit_values(
        self, kind: Kind, properties: dict[str, str], newer_than: float
    ) -> dict[str, str]:
        known = self._definitions[kind].get(newer_than=newer_than)
        chosen = {
            name: self._with_options(kind, known[name], newer_than)
            for name in properties
            if name in known
        }
        if _OWNER in properties:
            properties[_OWNER] = self._owner_id(properties[_OWNER], newer_than)
        return fitted(properties, chosen, of=kind)

    def _place(
        self, kind: Linked, properties: Mapping[str, str], newer_than: float
    ) -> dict[str, str]:
        """Return a pipeline and a stage that exist and agree."""
        pipeline, stage = names = _PLACES[kind]
        wanted = (properties.get(pipeline, "").strip(), properties.get(stage, "").strip())
        found = place(self._pipelines[kind].get(newer_than=newer_than), wanted, names)
        return dict(zip(names, found, strict=True))

    def _with_options(self, kind: Kind, described: Described, newer_than: float) -> Described:
        """Return the definition with the options that HubSpot keeps elsewhere (`externalOptions`).

        Where they may not be read, HubSpot itself decides on the value.
        """
        try:
            if described.name == _OWNER:
                return replace(described, options=self._owner_options(newer_than))
            if kind in ("deals", "tickets") and described.name in _PLACES[kind]:
                found = self._pipelines[kind].get(newer_than=newer_than)
                stages = described.name == _PLACES[kind][1]
                return replace(described, options=_places(found, stages=stages))
        except _MissingScopes:
            pass
        return described

    def _owner_options(self, newer_than: float) -> tuple[Choice, ...]:
        found = self._owners.get(newer_than=newer_than)
        return tuple(Choice(one.id, one.name or one.email or one.id) for one in found)

    def _owner_id(self, text: str, newer_than: float) -> str:
        """Return the id of the owner with this email; text that is none comes back."""
        if "@" not in text:
            return text
        try:
            found = self._owners.get(newer_than=newer_than)
        except _MissingScopes:
            return text
        wanted = text.strip().casefold()
        return next((one.id for one in found if one.email.casefold() == wanted), text)

    # The hub's marks.

    def _marked(self, kind: Kind, mark: str, *, newer_than: float = HOUR) -> dict[str, str]:
        return {self._mark: mark} if mark and self._mark_definition(kind, newer_than) else {}

    def _mark_definition(self, kind: Kind, newer_than: float = HOUR) -> Mapping[str, Any] | None:
        return self._marks[kind].get(newer_than=newer_than)

    def _takes_no_mark(self, kind: Kind, reason: str) -> BadConfig:
        # Written without it, what got lost on the way could not be told from what is not there.
        return BadConfig(
            f"HubSpot does not take the hub's mark in {self._mark} of {kind}: {reason}. Free this"
            " property of rules, or name another one as mark_property."
        )

    def _by_mark(self, kind: Kind, mark: str) -> Saved | None:
        try:
            answer = self._get(kind, mark, {"idProperty": self._mark})
        except NotFound:
            return None
        return self._saved(kind, answer, answer.object(), "created")

    def _contact_written(
        self, marked: Mapping[str, str], sent: Mapping[str, str], since_ms: int
    ) -> Saved | None:
        email, phone = sent.get("email", ""), sent.get("phone", "")
        if email:
            found = self.find_contact(email=email)
            return Saved(found.id, "created", found.url) if found else None
        _wait_until(since_ms, _SEARCH_LAG_S, "HubSpot's search may not show the contact yet.")
        if phone:
            found = self.find_contact(phone=phone)
            return Saved(found.id, "created", found.url) if found else None
        for name, value in marked.items():
            body = _search_body([_group(name, [value.lower()])])
            path = self._objects("contacts", "search")
            answer = self._listed("POST", *path, body=body, lane=_SEARCH)
            for record in answer.items():
                return self._saved("contacts", answer, record, "created")
        return None

    def _linked_record(
        self,
        kind: Linked,
        contact_id: str,
        marked: Mapping[str, str],
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        """Return the contact's deal or ticket of this mark, or made since with all these values.

        Not by its place: an automation of the account may have moved it on.
        """
        fit = marked or self._fit_values(kind, _unplaced(kind, sent), HOUR)
        expected = {name: value for name, value in fit.items() if value}
        since = since_ms / 1000 + self._clock_ahead - 2.0
        matches: list[tuple[float, Saved]] = []
        ids = [one for one in self._linked_ids(kind, contact_id) if one not in others]
        for answer in self._batch_reads(kind, ids, expected):
            for record in answer.items():
                values = answer.mapping(record.get("properties"))
                made = _moment(record.get("createdAt"))
                alike = all(_alike(v, _text(values.get(n))) for n, v in expected.items())
                if alike and (marked or made >= since):
                    matches.append((made, self._saved(kind, answer, record, "created")))
        if matches:
            return min(matches, key=lambda match: (match[0], match[1].id))[1]
        _wait_until(since_ms, _UNDER_WAY_S, "HubSpot may still be at work on the record.")
        return None

    def _linked_ids(self, kind: Linked, contact_id: str) -> list[str]:
        """Return the ids of the contact's records; links, unlike searches, never lag."""
        _check_id(contact_id)
        api = ("v4", "objects") if self._version == "v3" else ("objects", self._version)
        path = ("crm", *api, "contacts", contact_id, "associations", kind)
        pages = self._pages(path, self._http.send)
        ids = [
            answer.id({"id": one.get("toObjectId")}) for answer in pages for one in answer.items()
        ]
        return list(dict.fromkeys(ids))

    def _pages(self, path: Sequence[str], send: Callable[..., Answer]) -> Iterator[Answer]:
        params = {"limit": "500"}
        while True:
            answer = send("GET", *path, params=params)
            yield answer
            after = _next(answer, after=params.get("after", ""))
            if not after:
                return
            params = {**params, "after": after}

    # Definitions, read when needed and remembered for an hour.

    def _load_definitions(self, kind: Kind) -> dict[str, Described]:
        answer = self._listed("GET", *self._area("properties", kind))
        described = (_described(one) for one in answer.items() if not one.get("archived"))
        return {one.name: one for one in described}

    def _load_pipelines(self, kind: Linked) -> list[Pipeline]:
        answer = self._listed("GET", *self._area("pipelines", kind))
        return [_pipeline(answer, one) for one in _ordered(answer.items())]

    def _load_mark(self, kind: Kind) -> Mapping[str, Any] | None:
        try:
            path = self._area("properties", kind, self._mark)
            definition = self._http.send("GET", *path).object()
        # Without the right to look, or the property, writes go unmarked.
        except (NotFound, _MissingScopes):
            return None
        fit = definition.get("type") == "string" and not _described(definition).read_only
        return definition if fit else None

    def _load_owners(self) -> list[Owner]:
        pages = self._pages(self._area("owners"), self._listed)
        return [_owner(answer, one) for answer in pages for one in answer.items()]

    def _load_account(self) -> Mapping[str, Any]:
        # What was done is done: the address of its page is not worth a failure, nor another call.
        try:
            return self._http.send("GET", "account-info", self._version, "details").object()
        except AdapterError:
            return {}

    def _page(self, kind: Kind, record_id: str, record: Mapping[str, Any]) -> str:
        """Return the record's page for people, "" where neither it nor the account tells."""
        if isinstance(record.get("url"), str) and record["url"]:
            return str(record["url"])
        if self.context.remaining() < _SPARE_S:
            return ""
        try:
            account = self._account.get()
        except Unavailable:
            return ""
        portal, domain = account.get("portalId"), account.get("uiDomain")
        if not portal or not domain:
            return ""
        return f"https://{domain}/contacts/{portal}/record/{_TYPE_IDS[kind]}/{record_id}"


class _Batch:
    """Leads upserted together; those that need a closer look follow one by one, in their order."""

    def __init__(self, adapter: HubSpotAdapter, leads: Sequence[Lead]) -> None:
        self._adapter = adapter
        self._leads = leads
        self._outcomes: dict[int, Saved | AdapterError] = {}

    def run(self) -> list[Saved | AdapterError]:
        """Return what became of each lead, in the order of the leads."""
        first = self._first_of_each_person()
        try:
            self._write(first)
        # One refusal for all says nothing of each: what has no outcome yet is tried by itself.
        except (Conflict, NotFound, Rejected):
            pass
        except AdapterError as exc:
            for index in first:
                self._outcomes.setdefault(index, exc)
        for index, lead in enumerate(self._leads):
            if index not in self._outcomes:
                self._outcomes[index] = self._alone(lead)
        return [self._outcomes[index] for index in range(len(self._leads))]

    def _alone(self, lead: Lead) -> Saved | AdapterError:
        try:
            return self._adapter.upsert_contact(lead)
        except AdapterError as exc:
            return exc

    def _first_of_each_person(self) -> list[int]:
        """Return the leads that can go together: each with an email, and no value shared."""
        chosen, met = [], set[str]()
        for index, lead in enumerate(self._leads):
            known = {value for value in (lead.email, lead.phone, lead.contact_id) if value}
            if lead.email and not known & met and not lead.tried_ms:
                chosen.append(index)
            met |= known
        return chosen

    def _write(self, indexes: Sequence[int]) -> None:
        updates: dict[int, dict[str, Any]] = {}
        creates: dict[int, dict[str, Any]] = {}
        matches = self._matches(indexes)
        for index, match in matches.items():
            found, fit = match.contact, dict(match.properties)
            if found is None:
                mark = self._adapter._marked("contacts", self._leads[index].mark)
                creates[index] = {"properties": fit | mark, "associations": []}
                continue
            changed = {n: v for n, v in fit.items() if found.properties.get(n) != v}
            if changed:
                updates[index] = {"id": found.id, "properties": changed}
            else:
                self._outcomes[index] = Saved(found.id, "unchanged", found.url)
        self._send("update", updates, "updated")
        self._send("create", creates, "created")
        for index, match in matches.items():
            saved = self._outcomes.get(index)
            if isinstance(saved, Saved):
                self._outcomes[index] = replace(saved, refused=match.refused + saved.refused)

    def _matches(self, indexes: Sequence[int]) -> dict[int, Match]:
        """Return what is to be written for each lead; those to be refused have their outcome."""
        leads = {index: self._leads[index] for index in indexes}
        names = {name for lead in leads.values() for name in lead.properties}
        wanted = sorted({*names, "email", *_PHONES})
        emails = [lead.email for lead in leads.values()]
        # One that is found by a secondary address is left to the create, which names it.
        found = {
            one.properties.get("email", "").lower(): one
            for one in self._adapter._contacts(emails, wanted, by="email")
        }
        near = {i: one for i, one in leads.items() if _needs_no_look(one, found.get(one.email))}
        phones = {lead.phone for lead in near.values() if _phone_is_new(lead, found)}
        holders = self._adapter._by_phone(sorted(phones), wanted)
        matches: dict[int, Match] = {}
        taken: set[str] = set()
        for index, lead in near.items():
            try:
                match = decide(
                    lead, by_email=found.get(lead.email), by_phone=holders.get(lead.phone)
                )
                match = self._adapter._settled(lead, match)
            except Rejected as exc:
                self._outcomes[index] = exc
                continue
            contact_id = match.contact.id if match.contact else ""
            if contact_id not in taken:
                matches[index] = match
            taken |= {contact_id} - {""}
        return matches

    def _send(self, what: str, items: Mapping[int, dict[str, Any]], outcome: Outcome) -> None:
        """Write the items in one call and note the outcome of each."""
        if not items:
            return
        path = self._adapter._objects("contacts", "batch", what)
        # A batch without trace ids is all or nothing.
        inputs = [item | {_TRACE: str(index)} for index, item in items.items()]
        try:
            answer = self._adapter._http.send("POST", *path, body={"inputs": inputs})
            self._note(answer, items, outcome)
        except (Conflict, NotFound, Rejected):
            return
        except AdapterError as exc:
            for index in items:
                self._outcomes.setdefault(index, exc)

    def _note(self, answer: Answer, items: Mapping[int, dict[str, Any]], outcome: Outcome) -> None:
        written = answer.items()
        for record in written:
            index = _whose(record, items)
            if index is not None:
                saved = self._adapter._saved("contacts", answer, record, outcome)
                self._outcomes[index] = saved
        for failed in _objects_in(answer.object().get("errors")):
            # Half of a good answer, but told to people like any failure.
            clean = json.loads(self._adapter._http.mask(json.dumps(failed)))
            error = _item_failure(answer, clean)
            for index in _traced(failed) & items.keys():
                if not _solved_alone(error, items[index]["properties"]):
                    self._outcomes[index] = error
        if answer.status != 207 and len(written) < len(items):
            for index in items:
                error = Uncertain("HubSpot's answer to a batch leaves this one out.")
                self._outcomes.setdefault(index, error)


def _needs_no_look(lead: Lead, found: Contact | None) -> bool:
    """Return whether email and search are enough to tell where a lead belongs."""
    if found is None:
        return not (lead.contact_id or lead.email_id or lead.phone_id)
    return lead.phone_id in ("", found.id) or _has_number(found.properties, lead.phone)


def _phone_is_new(lead: Lead, found: Mapping[str, Contact]) -> bool:
    known = found.get(lead.email)
    return bool(lead.phone) and (known is None or known.properties.get("phone") != lead.phone)


def _whose(record: Mapping[str, Any], items: Mapping[int, Mapping[str, Any]]) -> int | None:
    """Return which item this is the result of, also where its trace id is not sent back."""
    values = record.get("properties")
    email = _text(values.get("email")).lower() if isinstance(values, dict) else ""
    for index, item in items.items():
        if _TRACE in record:
            same = record[_TRACE] == str(index)
        elif "id" in item:
            same = item["id"] == record.get("id")
        else:
            same = item["properties"].get("email") == email
        if same:
            return index
    return None


def _solved_alone(error: AdapterError, sent: Mapping[str, str]) -> bool:
    """Return whether a lead that fails like this may be stored when it is upserted by itself.

    A clash tells whose the email is, and what is refused may fit what was defined since.
    """
    if isinstance(error, Rejected):
        return bool({problem.name for problem in error.problems} & (sent.keys() - _PLAIN))
    return isinstance(error, Conflict | NotFound)


def _traced(failed: Mapping[str, Any]) -> set[int]:
    """Return the items that an error of a batch is about."""
    context = failed.get("context")
    traces = context.get(_TRACE) if isinstance(context, dict) else None
    listed = traces if isinstance(traces, list) else []
    return {int(one) for one in listed if isinstance(one, str) and one.isdecimal()}


class _MissingScopes(LacksRight):
    """HubSpot itself says so, and not something on the way."""


class _TooLong(Rejected):
    """The address of the call is longer than HubSpot takes (414)."""


def _failure(answer: Answer) -> AdapterError:
    """Return what HubSpot's error means; every field of it is optional (its documentation)."""
    body = answer.body if isinstance(answer.body, dict) else {}
    error = _own_failure(answer, body) or usual_failure(answer)
    correlation = body.get("correlationId")
    if isinstance(correlation, str):
        error.correlation_id = correlation
    return error


def _own_failure(answer: Answer, body: Mapping[str, Any]) -> AdapterError | None:
    match answer.status:
        case 401:
            return Denied(f"HubSpot refuses the access token ({_code(body, 'category') or 401}).")
        case 403 if body:
            return _missing_scopes(body)
        case 404 if body:
            return NotFound("HubSpot has no such record")
        case 400 | 409 if body:
            return _refused(answer, body)
        case 414:
            return _TooLong([], "HubSpot takes no address as long as this call's.")
        case 423:
            return Throttled(
                "HubSpot has locked the records for a bulk change.",
                retry_after=max(answer.seconds() or 0.0, _LOCKED_S),
            )
        case 429:
            return _throttled(answer, body)
        case 477:
            return Unavailable(
                "HubSpot is moving this account between its data centres.",
                retry_after=answer.seconds(),
            )
    return None


def _throttled(answer: Answer, body: Mapping[str, Any]) -> Throttled:
    said = f"{_text(body.get('policyName'))} {_text(body.get('message'))}".upper()
    scope, usual = "burst", _CALLS_SECONDS
    if "DAILY" in said:
        scope, usual = "daily", _DAILY_S
    elif "SECONDLY" in said and "TEN_SECONDLY" not in said:
        scope, usual = _SEARCH, 1.0
    wait = answer.seconds()
    policy = _code(body, "policyName") or scope
    return Throttled(
        f"HubSpot's limit of calls is reached ({policy}).",
        retry_after=usual if wait is None else wait,
        scope=scope,
    )


def _missing_scopes(body: Mapping[str, Any]) -> AdapterError | None:
    """Return what is lacking, in HubSpot's words; None where it is something else."""
    named = [
        _text(value)
        for one in (body, *_objects_in(body.get("errors")))
        for key, values in _context(one)
        if "scope" in key.lower()
        for value in values
    ]
    if not named and body.get("category") != "MISSING_SCOPES":
        return None
    scopes = f": it needs one of {', '.join(dict.fromkeys(named))}" if named else ""
    return _MissingScopes(f"The access token lacks a right in HubSpot{scopes[:_SHOWN]}.")


def _refused(answer: Answer, body: Mapping[str, Any]) -> AdapterError | None:
    """Return what a 400 or 409 says of properties; None where it says nothing of them."""
    message, faults = _text(body.get("message")), _faults(body)
    known = (body, *_objects_in(body.get("errors")))
    # Only a deal's or ticket's link to its contact names other objects.
    if any(key == "INVALID_OBJECT_IDS" for one in known for key, _ in _context(one)):
        return _no_contact()
    clashing = [name for name, (code, _) in faults.items() if "UNIQUE" in code.upper()]
    if answer.status == 409 or clashing:
        existing = _EXISTING_ID.search(message)
        found = (existing[1] or existing[2]) if existing else ""
        name = next(iter([*clashing, *faults]), "email" if "contact" in message.lower() else "")
        what = f"this {name}" if name else "such a value"
        return Conflict(
            f"HubSpot has another record{f', {found},' if found else ''} with {what}",
            existing_id=found,
            name=name,
        )
    if not faults:
        return None
    return Rejected([Problem(name, reason[:_SHOWN]) for name, (_, reason) in faults.items()])


def _faults(body: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return code and reason of what HubSpot says of each property.

    It stands in `errors`, or as JSON in the message, or beside it where values are missing.
    """
    found: dict[str, tuple[str, str]] = {}
    message = _text(body.get("message"))
    for one in (*_objects_in(body.get("errors")), *_listed_in(message), body):
        named = [_text(v) for key, vs in _context(one) if "propert" in key.lower() for v in vs]
        if one is not body:
            named = named or [_text(one.get("in") or one.get("name"))]
        code = _text(one.get("code") or one.get("error") or one.get("subCategory"))
        reason = _text(one.get("message")) or code or "HubSpot refuses it"
        for name in filter(None, named):
            found.setdefault(name, (code, reason))
    return found


def _context(one: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    context = one.get("context")
    pairs = context.items() if isinstance(context, dict) else ()
    return [(key, values) for key, values in pairs if isinstance(values, list)]


def _listed_in(message: str) -> list[Mapping[str, Any]]:
    _, bracket, rest = message.partition("[")
    try:
        return _objects_in(json.JSONDecoder().raw_decode(bracket + rest)[0]) if bracket else []
    except (ValueError, RecursionError):
        return []


def _code(body: Mapping[str, Any], name: str) -> str:
    """Return a word that HubSpot made, "" for anything else."""
    text = _text(body.get(name))
    return text if re.fullmatch(r"[A-Z_]{1,60}", text) else ""


def _item_failure(answer: Answer, failed: Mapping[str, Any]) -> AdapterError:
    """Return what one entry of a batch's `errors` means."""
    category = _code(failed, "category")
    status = {"CONFLICT": 409, "OBJECT_NOT_FOUND": 404, "VALIDATION_ERROR": 400}.get(category)
    if status is None:
        said = f"HubSpot could not write this one of a batch ({category or 'no word'})."
        error: AdapterError = Uncertain(said)
    else:
        error = _failure(replace(answer, status=status, body=failed))
    error.correlation_id = answer.correlation_id
    return error


def _objects_in(value: Any) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _has_number(values: Mapping[str, Any], phone: str) -> bool:
    numbers = (_text(values[name]) for name in _PHONES if values.get(name))
    return any(_ends_alike(phone, number) and same(phone, number) for number in numbers)


def _ends_alike(phone: str, stored: str) -> bool:
    """Return False for most numbers that differ: reading one takes a quarter of a millisecond.

    Numbers in letters, or in other digits than these, are left to the reading.
    """
    if not stored.isascii() or any(map(str.isalpha, stored)):
        return True
    return _NO_DIGIT.sub("", stored)[-4:] == _NO_DIGIT.sub("", phone)[-4:]


def _no_step_back(held: str) -> Problem:
    reason = f'HubSpot moves the stage only forward, and it is "{held}" already; clear it first'
    return Problem(_LIFECYCLE, reason)


def _described(definition: Mapping[str, Any]) -> Described:
    limits = definition.get("modificationMetadata")
    fixed = isinstance(limits, dict) and limits.get("readOnlyValue") is True
    return Described(
        name=_text(definition.get("name")),
        label=_text(definition.get("label")),
        type=_type(definition),
        options=tuple(
            Choice(_text(one.get("value")), _text(one.get("label")))
            for one in sorted(_objects_in(definition.get("options")), key=_order)
        ),
        read_only=fixed or definition.get("calculated") is True,
    )


def _type(definition: Mapping[str, Any]) -> PropertyType:
    kind = _TYPES.get(_text(definition.get("type")), "string")
    if kind == "enumeration" and definition.get("fieldType") == "checkbox":
        return "multi_enumeration"
    if kind == "number" and definition.get("numberDisplayHint") == "currency":
        return "currency"
    if kind != "string":
        return kind
    hints = (_text(definition.get(name)) for name in ("textDisplayHint", "fieldType"))
    return next((_HINTS[hint] for hint in hints if hint in _HINTS), "string")


def _unplaced(kind: Kind, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties without pipeline and stage."""
    places = _PLACES.get(kind, ())
    return {name: value for name, value in properties.items() if name not in places}


def _places(pipelines: Iterable[Pipeline], *, stages: bool) -> tuple[Choice, ...]:
    if stages:
        return tuple(stage for one in pipelines for stage in one.stages)
    return tuple(Choice(one.id, one.label) for one in pipelines)


def _pipeline(answer: Answer, found: Mapping[str, Any]) -> Pipeline:
    stages = _ordered(_objects_in(found.get("stages")))
    return Pipeline(
        answer.id(found),
        _text(found.get("label")),
        tuple(Choice(answer.id(one), _text(one.get("label"))) for one in stages),
    )


def _ordered(found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return pipelines or stages as HubSpot shows them: of two in one place by their label."""
    living = (one for one in found if not one.get("archived"))
    return sorted(living, key=lambda one: (*_order(one), _text(one.get("label")).casefold()))


def _order(one: Mapping[str, Any]) -> tuple[bool, int]:
    # HubSpot shows what has -1 after all others.
    order = one.get("displayOrder") or 0
    return order < 0, order


def _owner(answer: Answer, found: Mapping[str, Any]) -> Owner:
    name = " ".join(filter(None, (_text(found.get("firstName")), _text(found.get("lastName")))))
    return Owner(answer.id(found), _text(found.get("email")), name)


def _searches(phones: Sequence[str], *, calculated: bool) -> Iterator[tuple[list[Any], list[str]]]:
    """Yield the filter groups that find these phones, as many phones at once as fit a search."""
    some: list[str] = []
    for phone in phones:
        grown = _search_body(_phone_filters([*some, phone], calculated=calculated))
        if some and len(json.dumps(grown)) > _SEARCH_BODY:
            yield _phone_filters(some, calculated=calculated), some
            some = []
        some = [*some, phone]
    if some:
        yield _phone_filters(some, calculated=calculated), some


def _search_body(groups: Sequence[Any]) -> dict[str, Any]:
    return {
        "filterGroups": groups,
        "properties": list(_PHONES),
        "sorts": ["createdate"],
        "limit": 200,
        "after": "0",
    }


def _phone_filters(phones: Sequence[str], *, calculated: bool) -> list[Any]:
    """Return the filter groups, any of which may match, that find these numbers."""
    few = 1 if calculated and len(phones) > 1 else None
    typed = [form.lower() for phone in phones for form in notations(phone)[:few]]
    groups = [_group(name, typed) for name in _PHONES]
    plain = [digits for digits in map(national, phones) if digits]
    if calculated and plain:
        groups += [_group(name, plain) for name in _CALCULATED_PHONES]
    return groups


def _group(name: str, values: Sequence[str]) -> dict[str, Any]:
    """Return a filter group; values of IN must be lower-case (HubSpot's search guide)."""
    return {"filters": [{"propertyName": name, "operator": "IN", "values": values}]}


def _alike(sent: str, stored: str) -> bool:
    """Return whether HubSpot may have made this of what was sent: it writes values its own way."""
    if sent.strip().casefold() == stored.strip().casefold():
        return True
    try:
        return Decimal(sent) == Decimal(stored)
    except InvalidOperation:
        pass
    if _moment(sent) and _moment(sent) == _moment(stored):
        return True
    return ";" in sent and set(sent.split(";")) == set(stored.split(";"))


def _wait_until(since_ms: int, seconds: float, why: str) -> None:
    """Raise NotYet until so many seconds have passed since then."""
    # No longer than that from now on, should the clocks of two machines differ.
    rest = min(seconds, since_ms / 1000 + seconds - time.time())
    if rest > 0:
        raise NotYet(why, retry_after=rest)


def _next(answer: Answer, *, after: str) -> str:
    """Return the cursor of the next page, "" after the last one, or when it leads nowhere new."""
    paging = answer.object().get("paging")
    following = paging.get("next") if isinstance(paging, dict) else None
    cursor = _text(following.get("after")) if isinstance(following, dict) else ""
    return cursor if cursor != after else ""


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _moment(value: Any) -> float:
    try:
        return datetime.fromisoformat(_text(value)).timestamp()
    except ValueError:
        return 0.0


def _check_id(contact_id: str) -> None:
    """Raise NotFound for what HubSpot never issues, so that no id leads to another path."""
    if not _ID.fullmatch(contact_id):
        raise _no_contact()


def _no_contact() -> NotFound:
    return NotFound("HubSpot has no such contact")
