"""The adapter class for Pipedrive's API v2, and v1 for users.

Only a search index finds people by email or phone. It lags and costs 20 tokens, so a known person
is read by id (1 token), and after a search without result the latest changes are listed.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from typing import Any, ClassVar

from adapters.pipedrive import connecting
from adapters.pipedrive.api import (
    ME,
    READ,
    SEARCH,
    SEARCHING,
    WRITE,
    Api,
    Found,
    Record,
)
from adapters.pipedrive.entries import LISTED, has_email, has_phone, values
from adapters.pipedrive.fields import OWNER, Fields
from adapters.pipedrive.marks import Marks
from adapters.pipedrive.pipelines import NAMES
from crmhub.adapter import (
    Adapter,
    BadConfig,
    Changes,
    Conflict,
    Contact,
    Context,
    Described,
    Kind,
    LacksRight,
    Linked,
    NotFound,
    OAuth,
    Outcome,
    Owner,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Unsupported,
    Written,
)
from crmhub.adapter.fitting import Fitting
from crmhub.adapter.http import Answer
from crmhub.adapter.phones import nationals, same
from crmhub.adapter.remembered import HOUR

# For how many seconds the search may hide a change, and for how many it is not repeated.
_SEARCH_LAG_S, _SEARCHED_S = 120.0, 60.0
_MOST_SEARCHED = 500
_MOST_IDS = 100
_ID = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)


class PipedriveAdapter(Adapter):
    """The adapter for Pipedrive, by API token or OAuth.

    Pipedrive has no tickets: they become deals in the pipeline that a setting names.
    `active_workflow` is not supported, since no call tells the automations of a person.
    """

    title = "Pipedrive"
    record_pages = True
    linked_kinds: ClassVar[Mapping[Linked, str]] = {"deals": "", "tickets": "support_pipeline"}
    whole_name = "name"
    email_names = ("email", "emails")
    phone_names = ("phone", "phones")
    remembered_first = True
    settings = connecting.SETTINGS
    guides = connecting.GUIDES

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._api = Api(context, self.title)
        self._fields = Fields(self._api, context)
        self._fitting = Fitting(self._fields, places=NAMES, owner=OWNER)
        self._marks = Marks(self._api, self._fields, self._fitting)
        # When a search by an email began that found nobody, in seconds of the monotonic clock.
        self._searched: dict[str, float] = {}

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        return connecting.clash(settings, credentials)

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> OAuth | None:
        return connecting.oauth(settings)

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        return _ID.fullmatch(contact_id) is not None

    # Finding contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        started = time.monotonic()
        found = self._search(email, phone) or self._recent(email, phone)
        if email and not found:
            self._searched = {**dict([*self._searched.items()][-_MOST_SEARCHED:]), email: started}
        return self._contact(*found, names) if found else None

    def _search(self, email: str, phone: str) -> Found | None:
        """Return the oldest person whom the search finds, as read by id."""
        searches = [(email, "email", "true")]
        if phone:
            # How the search compares phones is not documented: by a part, then by the whole text.
            searches = [(part, "phone", "false") for part in nationals(phone)[:1]]
            searches += [(phone, "phone", "true")]
        for term, of, exact in searches:
            params = {"term": term, "fields": of, "exact_match": exact}
            path = ("persons", "search")
            rows = self._api.listed(*path, params=params, cost=SEARCHING, lane=SEARCH)
            items = [(answer, answer.mapping(row.get("item"))) for answer, row in rows]
            ids = [answer.id(item) for answer, item in items if _has(item, email, phone)]
            people = [one for one in self._read(ids) if _has(one[1], email, phone)]
            if people:
                return min(people, key=_age)
        return None

    def _read(self, ids: Sequence[str]) -> Iterator[Found]:
        """Yield the people with these ids; those that do not exist are left out."""
        if len(ids) == 1:
            with suppress(NotFound):
                yield self._person(ids[0])
            return
        for start in range(0, len(ids), _MOST_IDS):
            params = {"ids": ",".join(ids[start : start + _MOST_IDS])}
            yield from self._api.listed("persons", params=params)

    def _recent(self, email: str, phone: str) -> Found | None:
        """Return the oldest person among those whose changes the search may not show yet."""
        since = self._api.moment(time.time() - _SEARCH_LAG_S)
        people = self._api.listed("persons", params={"updated_since": since})
        return min((one for one in people if _has(one[1], email, phone)), key=_age, default=None)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        return self._contact(*self._person(contact_id), names)

    def _person(self, contact_id: str) -> Found:
        self._check_id(contact_id)
        answer, person = self._api.record("GET", "persons", contact_id, cost=READ)
        if person.get("is_deleted"):
            raise NotFound("This person was deleted in Pipedrive")
        return answer, person

    def _check_id(self, contact_id: str) -> None:
        if not self.may_be_id(contact_id):
            raise NotFound("Pipedrive has no person under an id of this form")

    def _contact(self, answer: Answer, person: Record, names: Sequence[str]) -> Contact:
        fields = self._fields.of("contacts")
        properties = {name: fields[name].text(person) for name in names if name in fields}
        for name in {"emails", "phones"} & {*names}:
            properties[name] = ";".join(values(person, name))
        saved = self._saved("contacts", answer, person)
        return Contact(saved.id, properties, saved.url)

    def _saved(
        self, kind: Written, answer: Answer, record: Record, outcome: Outcome = "created"
    ) -> Saved:
        page, record_id = "person" if kind == "contacts" else "deal", answer.id(record)
        return Saved(record_id, outcome, f"{self._api.site()}/{page}/{record_id}")

    def has_email(self, contact: Contact, email: str) -> bool:
        """Return whether `email` is the primary email or a further one of the contact."""
        return email in contact.properties.get("emails", "").lower().split(";")

    def has_phone(self, contact: Contact, phone: str) -> bool:
        """Return whether the contact has this phone number, stored in any notation."""
        return any(same(phone, one) for one in contact.properties.get("phones", "").split(";"))

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return the properties whose values differ; a further phone of the contact does not."""
        fit, current = self._fitting.fitted("contacts", properties), contact.properties
        if fit.get("phone") and self.has_phone(contact, fit["phone"]):
            del fit["phone"]
        return Changes({name: text for name, text in fit.items() if current.get(name) != text})

    # Writing.

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        email = properties.get("email", "").strip().lower()
        if not email:
            return self._write("contacts", "POST", properties, mark=mark)
        # Pipedrive takes an email twice.
        with self.context.lease(f"email {email}", self.context.remaining()):
            if holder := self._holder(email):
                existing_id = holder[0].id(holder[1])
                raise Conflict("This email is taken.", existing_id=existing_id, name="email")
            return self._write("contacts", "POST", properties, mark=mark)

    def _holder(self, email: str) -> Found | None:
        """Return the person with this email; what was just searched for is not searched again."""
        searched = self._searched.pop(email, None)
        if searched is not None and time.monotonic() - searched < _SEARCHED_S:
            return self._recent(email, "")
        return self._search(email, "") or self._recent(email, "")

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        # Pipedrive replaces lists as a whole: without a lease, two writes lose an entry.
        lease = self.context.lease(f"person {contact_id[:20]}", self.context.remaining())
        with lease if properties.keys() & LISTED.keys() else nullcontext():
            _, person = self._person(contact_id)
            return self._write("contacts", "PATCH", properties, record=person)

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a deal that is linked to the person, in one call."""
        self.pipelines(kind)
        # Pipedrive does not say what it does with the id of a deleted person.
        self._person(contact_id)
        return self._write(kind, "POST", properties, mark=mark, person_id=int(contact_id))

    def _write(
        self,
        kind: Written,
        method: str,
        properties: Mapping[str, str],
        *,
        record: Record | None = None,
        mark: str = "",
        **link: int,
    ) -> Saved:
        """Create a record, or update the person `record`; return the result.

        If Pipedrive refuses values, they are fitted to newer definitions and sent once more.
        """
        path = ["persons" if kind == "contacts" else "deals"]
        path += [str(record["id"])] if record else []
        refused = Rejected([])
        sent: dict[str, Any] = {}
        for newer_than in (HOUR, self._fields.stale_s):
            fit = self._fitting.fitted(kind, properties, newer_than=newer_than)
            field = self._fields.mark(kind, newer_than=newer_than) if mark else None
            if field and not fit.get(field.described.name):
                fit[field.described.name] = mark
            body = self._fields.body(kind, fit, record, newer_than=newer_than) | link
            if body == sent:
                break
            sent = body
            try:
                answer, made = self._api.record(method, *path, cost=WRITE, body=body)
            except Rejected as exc:
                refused = self._fields.renamed(kind, exc)
            else:
                return self._saved(kind, answer, made, "updated" if record else "created")
        raise refused

    # Records of earlier attempts.

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        if kind == "contacts":
            found = self._marks.person(mark, sent, since_ms)
            return self._saved(kind, *found) if found else None
        return self._deal_made(kind, contact_id, mark, sent, since_ms, ())

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
        return self._deal_made(kind, contact_id, mark, sent, since_ms, others)

    def _deal_made(
        self,
        kind: Linked,
        contact_id: str,
        mark: str,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        self._check_id(contact_id)
        found = self._marks.deal(kind, contact_id, mark, sent, since_ms, others)
        return self._saved(kind, *found) if found else None

    # Metadata.

    def check(self) -> None:
        """Test the credentials, the scopes of an app, and the settings that name fields.

        Raises LacksRight with the missing scopes, and BadConfig with all wrong settings.
        """
        self._api.record("GET", "users", "me", version="v1", cost=ME)
        if missing := self._api.missing_scopes():
            raise LacksRight(f"The app lacks scopes in Pipedrive; give it {', '.join(missing)}.")
        problems: list[Problem] = []
        kinds: tuple[Written, Written] = ("contacts", "deals")
        for kind in kinds:
            field = self._fields.mark(kind, newer_than=0.0)
            if self.context.settings["mark_field"] and not (field and field.custom):
                of = "people" if kind == "contacts" else "deals"
                reason = f"{of} have no custom field of the type Text with this name or API key"
                problems.append(Problem("mark_field", reason))
        try:
            self._fields.pipelines("deals", newer_than=0.0)
            if self.context.settings["support_pipeline"]:
                self._fields.pipelines("tickets")
        except BadConfig as exc:
            if not exc.problems:
                raise
            problems += exc.problems
        # Last, since definitions are taken from the cache while Pipedrive is unavailable.
        next(self._api.listed("persons", params={"limit": "1"}), None)
        if problems:
            texts = "; ".join(f"{problem.name}: {problem.reason}" for problem in problems)
            raise BadConfig(texts, problems=problems)

    def describe(self, kind: Kind) -> list[Described]:
        """Return the fields of people or deals; those of tickets are the fields of deals.

        The users are no options of the owner: to list them costs 20 tokens (`owners`).
        """
        if kind == "companies":
            raise Unsupported("The Pipedrive adapter does not describe companies.")
        if kind != "contacts":
            self.pipelines(kind)
        return [
            field.described if name == OWNER else self._fitting.with_options(kind, field.described)
            for name, field in self._fields.of(kind).items()
        ]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines; that of the setting `support_pipeline` is the one for tickets."""
        return self._fields.pipelines(kind)

    def owners(self) -> list[Owner]:
        """Return the active users of the company."""
        return self._fields.owners()


def _has(record: Record, email: str, phone: str) -> bool:
    """Return whether a person has this email (or phone), and is not deleted."""
    found = has_email(record, email) if email else has_phone(record, phone)
    return found and not record.get("is_deleted")


def _age(found: Found) -> tuple[str, int]:
    """Return the sort key by which the oldest person comes first."""
    answer, person = found
    return str(person.get("add_time")), int(answer.id(person))
