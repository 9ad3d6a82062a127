"""The contract between the hub and its adapters; one adapter connects the hub to one kind of CRM.

An adapter is one class. The class declares its settings, implements the five abstract methods of
`Adapter`, and overrides the optional methods (`OPTIONAL`) that its CRM supports; the hub detects
which ones are overridden. It imports `crmhub.adapter` and no other package of the hub. This module,
`configuration`, `errors`, `values` and `context` need nothing but the standard library. The hub
finds the class by the entry-point group `crmhub.adapters`.

Rules for every method:

- Ids are strings, even if the CRM uses numbers. Property values are strings both ways; `""` means
  "no value", and writing it clears the property.
- Each failure raises the error of `errors` that tells the caller what to do. Any other exception is
  a bug of the adapter. Error messages contain no credential, since callers read them.
- An adapter never drops a value silently. If the CRM refuses a property, the adapter raises
  `Rejected`; the hub then repeats the call without this property and names it in its answer.
- An instance serves one connection, and several threads may use it at once.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar, NoReturn

from crmhub.adapter.context import Context
from crmhub.adapter.errors import AdapterError, NotFound, NotYet, Problem, Unsupported
from crmhub.adapter.phone_reading import line_of
from crmhub.adapter.values import (
    ChangedPage,
    Changes,
    Contact,
    ContactWrite,
    Described,
    Event,
    Guide,
    Kind,
    Linked,
    OAuth,
    Owner,
    Pipeline,
    Record,
    Saved,
    Setting,
    WebhookRequest,
    Written,
)

OPTIONAL = frozenset(
    {
        "active_workflow",
        "add_note",
        "archive",
        "changed_since",
        "check",
        "create_task",
        "describe",
        "events",
        "find_contacts",
        "find_marked",
        "get_records",
        "link",
        "merge",
        "owners",
        "pipelines",
        "write",
        "write_contacts",
    }
)
"""The names of the optional methods of `Adapter`; an adapter supports those that it overrides."""


class Adapter(ABC):
    """Base class of adapters; the hub creates one instance for each connection.

    The constructor sends no request. Every declared setting has a value, possibly `""`.
    """

    title: ClassVar[str]
    """The CRM's name as shown to people, such as "HubSpot"."""
    settings: ClassVar[tuple[Setting, ...]] = ()
    guides: ClassVar[tuple[Guide, ...]] = ()
    """What a person does in the CRM before the account is connected; shown beside the form."""
    record_pages: ClassVar[bool] = False
    """Whether the adapter sets the web addresses of records (`Saved.url`, `Contact.url`)."""
    untold_deletions: ClassVar[frozenset[Kind]] = frozenset()
    """The kinds of records whose deletions `changed_since` cannot tell.

    The hub notices these by webhooks, and when it compares all ids.
    """
    own_titles: ClassVar[Mapping[Linked, str]] = {}
    """The CRM's own names of a deal's `dealname` and a ticket's `subject`, if callers may use them.

    The hub refuses a deal or ticket without a title before it calls the adapter.
    """
    remote: ClassVar[bool] = True
    """Whether the adapter calls another system; False if it uses the hub's own records."""
    batch_size: ClassVar[int] = 1
    """The most contacts in one call of `find_contacts` or `write_contacts`; 1 for no batches."""
    whole_name: ClassVar[str] = ""
    """The CRM's property for the whole name of a contact; "" if it has first and last names.

    The hub then joins `firstname` and `lastname` to this property, and splits it: the adapter gets
    and returns only the whole name (`crmhub.adapter.translated`).
    """
    linked_kinds: ClassVar[Mapping[Linked, str]] = MappingProxyType({"deals": "", "tickets": ""})
    """The kinds of records that `create_for_contact` creates, each with the setting that it needs.

    "" means that it needs none. For a kind that is missing here, or whose setting is empty,
    `create_for_contact` raises Unsupported.
    """
    email_names: ClassVar[tuple[str, ...]] = ("email",)
    """The names of the contact properties that `has_email` needs."""
    unique_emails: ClassVar[bool] = False
    """Whether the CRM itself refuses a second contact with an email.

    True only if `create_contact` then raises Conflict with the id of the contact that has the
    email, as its only one or as one of several. The hub then creates the contact of a new lead
    that has a phone, too, without looking its email up.
    """
    unique_titles: ClassVar[frozenset[Linked]] = frozenset()
    """The kinds of records of which the CRM refuses a second one with the same title.

    `create_for_contact` then raises Conflict with the title's name, and never returns the record
    that has the title, since it is another contact's.
    """
    phone_names: ClassVar[tuple[str, ...]] = ("phone", "mobilephone")
    """The names of the contact properties that `has_phone` needs."""
    remembered_first: ClassVar[bool] = False
    """Whether the hub reads the contact that it remembers for an email before it searches for one.

    Set this where a search is later, or costs more, than reading a contact by its id.
    """
    longest_note: ClassVar[int] = 65_536
    """The most characters in a note; the hub splits a longer text."""
    under_way_s: ClassVar[float] = 60.0
    """For how many seconds a write whose answer was lost may still take effect; 0 for never.

    The hub waits this long before it repeats an update. Before it repeats a create, it waits for
    the seconds that `may_land_for` returns.
    """

    def __init__(self, context: Context) -> None:
        self.context = context

    def can(self, feature: str) -> bool:
        """Return whether this adapter overrides the optional method named `feature`."""
        return feature in features(type(self))

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        """Return why these singly valid values cannot be used together, maybe for one field; or
        `""`.
        """
        return ""

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> OAuth | None:
        """Return how an account with these settings is connected by OAuth, or None.

        `settings` has every declared setting that is no secret. Overridden, the console offers the
        button "Connect". Send no request.
        """
        return None

    @classmethod
    def may_be_id(cls, contact_id: str) -> bool:
        """Return whether this may be one of the CRM's contact ids; send no request.

        So the hub refuses an invalid id even while the CRM is unavailable. Return True for every id
        that the CRM has issued.
        """
        return True

    def check_id(self, contact_id: str) -> None:
        """Raise NotFound for an id that `may_be_id` refuses: in a path it could lead elsewhere."""
        if not self.may_be_id(contact_id):
            raise NotFound(f"{self.title} has no such record")

    def may_land_for(
        self, kind: Kind, properties: Mapping[str, str], *, contact_id: str = ""
    ) -> float:
        """Return how many seconds after an unanswered create the CRM may still show its record.

        `contact_id`: the contact of a new deal or ticket, "" for a record without one. During this
        time the hub trusts no lookup that finds nothing, and creates nothing again. Return 0 where
        the CRM refuses a second record because the email or the mark must be unique, and more than
        `under_way_s` where its lookups show a new record late.
        """
        return self.under_way_s

    # Required.

    @abstractmethod
    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        """Return the oldest contact with this email or with this phone, or None.

        Exactly one is given: `email` in lower case, or `phone`, in E.164 if the hub could parse it;
        search for the CRM's notation. The whole value must match, so check the results of a search
        by parts. Use an endpoint that shows the latest writes: a search index that lags causes
        duplicates. `names` are the properties to return.
        """

    @abstractmethod
    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        """Return the contact with this id and its properties `names`.

        Omit unknown names, but return `""` for a property without a value; if the CRM omits both,
        fetch the definitions to tell them apart. Raises NotFound if there is no such contact, or
        the id is invalid. For a merged contact, return the resulting one under its own id, if the
        CRM leads there.
        """

    @abstractmethod
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        """Create a contact and return its id, with the outcome `created`.

        `mark` identifies this write; store it if the CRM has a field for it. Raises Conflict with
        the id of the contact that has the email (or the phone, if unique in the CRM), Rejected with
        exactly the properties that the CRM refuses, and Uncertain if it did not answer.
        """

    @abstractmethod
    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        """Write the given properties of a contact; `""` clears one, and others are unchanged.

        Return `unchanged` only if the CRM certainly had the values before, else `updated`. Raises
        NotFound, Rejected, and Conflict for a unique value of another contact.
        """

    @abstractmethod
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a deal or ticket that is linked to the contact, never one without the link.

        If the link needs a second call and that fails, delete the record; raise Uncertain if that
        fails, too. Raises Rejected with the property's name for an unknown pipeline or stage (never
        use another instead), and NotFound for an unknown contact. Store `mark`, which identifies
        the write, if the CRM has a field for it, so that `find_marked` finds the record.
        """

    # Derived: override where the CRM differs.

    def has_email(self, contact: Contact, email: str) -> bool:
        """Return whether the contact has `email` (lower case); override for several emails."""
        return contact.properties.get("email", "").lower() == email

    def has_phone(self, contact: Contact, phone: str) -> bool:
        """Return whether `phone` is the value of one of `phone_names`, in either Argentine form.

        Override this method where the CRM may store other notations, or several numbers in one.
        """
        values = (contact.properties.get(name, "") for name in self.phone_names)
        return line_of(phone) in map(line_of, values)

    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        """Return which properties an update must write; by default those whose value differs.

        `contact` was read with their names. Override this method where the CRM converts values or
        silently ignores some. Raises Rejected for values that the adapter refuses.
        """
        current = contact.properties
        return Changes({name: v for name, v in properties.items() if current.get(name) != v})

    # Optional: the hub detects which of these methods an adapter overrides.

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        """Return the contacts by those of the given `emails` or `phones` that have one.

        Exactly one of both is given; send few requests. An email may also be missing if only
        `find_contact` or a write can find its contact. `names` are the properties to return.
        """
        self._cannot("find several contacts at once")

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        """Make up to `batch_size` creates and updates in few requests; return results in order.

        A failed write affects no other; its result is the error. None means that it was not made:
        the hub then makes it in a request of its own, which gives a more precise error.
        """
        self._cannot("write several contacts at once")

    def active_workflow(self, contact_id: str, *, since_ms: int) -> str:
        """Return the id of the workflow that the contact entered last since `since_ms`, or `""`.

        In milliseconds since 1970. Without this method, the hub itself stores the workflows.
        """
        self._cannot("tell a contact's workflow")

    def check(self) -> None:
        """Send a request to the CRM; raise an error that tells an operator what to correct."""
        self._cannot("check its connection")

    def describe(self, kind: Kind) -> list[Described]:
        """Return the definitions of all properties of this kind of record, with their options.

        Raises Unsupported if the CRM has no such kind.
        """
        self._cannot("list properties")

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        """Return the pipelines with their stages; stages without one are in a pipeline "".

        Raises Unsupported for a kind of records that has neither.
        """
        self._cannot("list pipelines")

    def check_place(self, kind: Linked, properties: Mapping[str, str]) -> None:
        """Raise Rejected for a place that is known not to exist, without any request."""
        return

    def owners(self) -> list[Owner]:
        """Return the CRM users to whom records can be assigned."""
        self._cannot("list owners")

    def find_marked(
        self,
        kind: Kind,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        """Return the record that an earlier attempt of a create made, or None if there is none.

        Called before a create that raised Uncertain is sent again; `contact_id` is "" for a record
        that was created without a contact, as by `write`. The create began at `since_ms`
        (milliseconds since 1970) with the properties `sent`.

        Use an endpoint that shows the latest writes: search by the mark if the CRM stores it, else
        for these values among the records created since, of the contact if there is one. Never
        return a record that was created before. The hub relies on None only after the seconds of
        `may_land_for`. Raises NotYet while the CRM cannot answer reliably.

        Without this method, a create is sent again at once, which makes a duplicate unless the CRM
        returns the record with the mark. The contact of a lead is found by its email or phone.
        """
        self._cannot("look up a write")

    def find_apart(
        self,
        kind: Kind,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
        others: Collection[str],
    ) -> Saved | None:
        """Return the result of `find_marked`, but never a record whose id is in `others`.

        Those are of other writes. Override this method if `find_marked` recognizes a record by
        values and creation time: of two equal deals, it must not return that of another write.
        """
        return self.find_marked(kind, contact_id, mark, sent=sent, since_ms=since_ms)

    # Optional: a copy of the CRM's records in the hub, and notes and tasks.

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> ChangedPage:
        """Return a page of the records that changed since `since`, with their properties `names`.

        `since` is "" for all records, else `ChangedPage.next` of an earlier call, a text of the
        adapter's own. A record may appear several times; its last appearance counts. No change, no
        deletion and no merge after the first call may be missing in the end: where the CRM's
        search lags, start a little before `since`. A CRM that does not tell merges tells the
        deletion of one record and a change of the other; see also `untold_deletions`. Raises
        Unsupported if the CRM has no such kind.
        """
        self._cannot("tell what changed")

    def get_records(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> list[Record]:
        """Return the records with these ids as `changed_since` does, in any order; send few
        requests.

        Leave out those that do not exist, are deleted, or were merged into another record. Use an
        endpoint that shows the latest writes. Raises Unsupported if the CRM has no such kind.
        """
        self._cannot("read records of any kind")

    def write(
        self, kind: Kind, record_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Update a record of any kind as `update_contact` does; create one if `record_id` is "".

        A new record is linked to no other. `mark` identifies a create. Raises NotFound, Rejected,
        Conflict, Uncertain, and Unsupported if the CRM has no such kind.
        """
        self._cannot("write records")

    def archive(self, kind: Kind, record_id: str) -> None:
        """Delete a record, so that people can restore it if the CRM allows this.

        Raises NotFound if there is none, also if it is deleted already, and Uncertain.
        """
        self._cannot("delete records")

    def link(
        self, kind: Kind, record_id: str, to: Kind, to_id: str, *, remove: bool = False
    ) -> None:
        """Associate two records, or `remove` their association; both orders mean the same.

        The association is in `Record.links` of at least one of both. Do nothing if it exists, or is
        removed, already. Raises NotFound if one of the records is missing, Conflict with the id of
        the other record if the CRM holds only one such association and has another one, Rejected,
        Uncertain, and Unsupported if the CRM has no associations between these kinds.
        """
        self._cannot("associate records")

    def merge(self, kind: Kind, kept_id: str, other_id: str) -> Saved:
        """Merge two contacts or two companies; return the resulting record, outcome `updated`.

        The values of the kept record count where both have one. The result may have a new id: then
        `changed_since` tells of both ids that they were merged, or are deleted, else of `other_id`.
        Raises NotFound if one of both is missing, also if it was merged already, Rejected if both
        are the same or the CRM refuses, Uncertain, and Unsupported for other kinds of records.
        """
        self._cannot("merge records")

    def events(self, request: WebhookRequest) -> Sequence[Event]:
        """Return the records that a webhook names; send no request.

        The hub reads what changed from the CRM, whatever the webhook says. Raises Denied unless
        the request proves by its signature (or password) that it is from the CRM, and Unsupported
        if the connection lacks the secret for this.
        """
        self._cannot("read webhooks")

    def add_note(
        self, kind: Written, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        """Add a note to a record's timeline; return its id.

        `text` is plain text of at most `longest_note` characters: escape it for the CRM, and keep
        its line breaks. `at_ms`: the note's date (milliseconds since 1970). If an earlier attempt
        has added the note with this mark, return that one.
        Raises NotFound, Rejected, Uncertain, and Unsupported if the kind has no notes.
        """
        self._cannot("add notes")

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        """Create a task for a contact; return its id.

        `properties` are some of `subject`, `notes`, `due` (a datetime), `owner` (its id) and
        `priority` (LOW, MEDIUM or HIGH). If an earlier attempt has created the task with this
        mark, return that one. Raises NotFound, Uncertain, and Rejected as `create_contact` does.
        """
        self._cannot("create tasks")

    def _cannot(self, what: str) -> NoReturn:
        raise Unsupported(f"The {self.title} adapter cannot {what}.")


def hold_back_create(
    adapter: Adapter,
    kind: Kind,
    properties: Mapping[str, str],
    written_ms: int,
    *,
    contact_id: str = "",
) -> None:
    """Raise NotYet while the record of an earlier, unanswered create may still appear.

    Call this after a lookup that found nothing, before the record is created again. `written_ms`:
    when an earlier attempt may last have sent it (milliseconds since 1970), or 0. `contact_id`: as
    in `may_land_for`.
    """
    if written_ms:
        seconds = adapter.may_land_for(kind, properties, contact_id=contact_id)
        why = f"{adapter.title} may still create the record. It is looked up again before another"
        _hold_back(seconds, written_ms, f"{why} is created.")


def hold_back_update(adapter: Adapter, written_ms: int) -> None:
    """Raise NotYet while an earlier, unanswered update may still overwrite newer values.

    `written_ms`: when an attempt may last have sent it (milliseconds since 1970), or 0.
    """
    if written_ms:
        why = f"{adapter.title} may still write the values. They are sent again after that."
        _hold_back(adapter.under_way_s, written_ms, why)


def _hold_back(seconds: float, since_ms: int, why: str) -> None:
    # At most `seconds` from now, even if the clocks of two machines differ.
    rest = min(seconds, since_ms / 1000 + seconds - time.time())
    if rest > 0:
        raise NotYet(f"An earlier attempt got no answer, and {why}", retry_after=rest)


def features(adapter: type[Adapter]) -> frozenset[str]:
    return frozenset(
        name for name in OPTIONAL if getattr(adapter, name) is not getattr(Adapter, name)
    )


def has_oauth(adapter: type[Adapter]) -> bool:
    return adapter.oauth.__func__ is not Adapter.oauth.__func__  # type: ignore[attr-defined]
