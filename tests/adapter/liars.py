"""Adapters of the small CRM that lie, each in its own way, with the tests that must catch them."""

from __future__ import annotations

import html
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import requests

from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    ChangedPage,
    Changes,
    Conflict,
    Contact,
    ContactWrite,
    Context,
    Denied,
    Event,
    Guide,
    Kind,
    LacksRight,
    Linked,
    NotFound,
    OAuth,
    Pipeline,
    Problem,
    Record,
    Rejected,
    Response,
    Saved,
    Setting,
    Step,
    Throttled,
    Unavailable,
    Uncertain,
    Unsupported,
    WebhookRequest,
    Written,
)
from crmhub.adapter.http import Answer
from crmhub.adapter.oauth import Grant
from crmhub.adapter.testing.faults import harms
from tests.adapter.small_adapter import SmallAdapter
from tests.adapter.small_crm import TEXTS, TITLES

CAUGHT_BY: dict[type[Adapter], tuple[str, ...]] = {}
"""The tests that must fail for each liar."""


def caught_by(*tests: str) -> Callable[[type[SmallAdapter]], type[SmallAdapter]]:
    def note(liar: type[SmallAdapter]) -> type[SmallAdapter]:
        CAUGHT_BY[liar] = tests
        return liar

    return note


NAMED: set[str] = set()
"""The faults with which liars are caught; inner runs try no others."""
FAULTS = "test_calls_that_meet_a_fault_tell_the_truth"


def faulty(harm: str) -> str:
    """Return the test that tries the fault `harm`, with those of its family."""
    of = [family for family, faults in harms().items() if harm in (one.name for one in faults)]
    NAMED.add(harm)
    return f"{FAULTS}[{of[0]}]"


class _Searching(SmallAdapter):
    def hits(self, q: str, names: Sequence[str], limit: int = 1000) -> list[Contact]:
        query = {"q": q, "limit": str(limit), "page": "0"}
        answer = self.call("GET", "contacts", params=query)
        return [self.contact(one, names) for one in answer.items()]


class _ByItself(SmallAdapter):
    def own_get(self, contact_id: str) -> Response:
        return self.context.session.request(
            "GET",
            f"{self.context.settings['base_url']}/contacts/{contact_id}",
            headers={"Authorization": f"Bearer {self.grant.token()}"},
            data=None,
            timeout=self.context.remaining(),
        )


# --- Looking up ---------------------------------------------------------------------------------


@caught_by(
    "test_an_email_finds_its_contact_among_lookalikes",
    "test_an_email_that_only_lookalikes_have_finds_nothing",
)
class SearchesForAPart(_Searching):
    def find_contact(self, *, email: str = "", phone: str = "", names: Any = ()) -> Contact | None:
        if email:
            return next(iter(self.hits(email, names)), None)
        return super().find_contact(phone=phone, names=names)


@caught_by("test_a_contact_is_found_behind_more_lookalikes_than_a_page_holds")
class ReadsTheFirstPageOnly(_Searching):
    limit, page = 100, slice(None)

    def find_contact(self, *, email: str = "", phone: str = "", names: Any = ()) -> Contact | None:
        if email:
            page = self.hits(email, ("email", *names), self.limit)[self.page]
            found = [one for one in page if one.properties["email"] == email]
            return self.trimmed(found[0], names) if found else None
        return super().find_contact(phone=phone, names=names)


@caught_by("test_a_contact_is_found_behind_more_lookalikes_than_a_page_holds")
class ReadsTheNewestOnly(ReadsTheFirstPageOnly):
    limit, page = 1000, slice(-100, None)


@caught_by("test_lists_are_read_to_their_last_page")
class ReadsTheFirstLargePageOnly(ReadsTheFirstPageOnly):
    limit = 500


@caught_by("test_a_phone_that_only_lookalikes_have_finds_nothing")
class ComparesTheLastDigits(_Searching):
    def find_contact(self, *, email: str = "", phone: str = "", names: Any = ()) -> Contact | None:
        if phone:
            return next(iter(self.hits(phone[-7:], names)), None)
        return super().find_contact(email=email, names=names)


@caught_by("test_a_contact_is_found_by_email_although_the_search_lags")
class TrustsALateSearch(_Searching):
    def find_contact(self, *, email: str = "", phone: str = "", names: Any = ()) -> Contact | None:
        if email and email not in [one.properties["email"] for one in self.hits(email, ["email"])]:
            return None
        return super().find_contact(email=email, phone=phone, names=names)


@caught_by("test_the_oldest_of_several_with_a_phone_is_found")
class FindsTheNewest(_Searching):
    def find_contact(self, *, email: str = "", phone: str = "", names: Any = ()) -> Contact | None:
        if phone:
            return next(reversed(self.hits(phone, names)), None)
        return super().find_contact(email=email, names=names)


@caught_by("test_a_phone_is_found_with_spaces", "test_a_phone_is_found_in_national_notation")
class KnowsOneNotationOnly(_Searching):
    def find_contact(self, *, email: str = "", phone: str = "", names: Any = ()) -> Contact | None:
        if phone:
            return next(iter(self.hits(phone, names)), None)
        return super().find_contact(email=email, names=names)


@caught_by("test_an_email_that_only_lookalikes_have_finds_nothing")
class RaisesNotFoundForASearch(SmallAdapter):
    def find_contact(self, **asked: Any) -> Contact | None:
        found = super().find_contact(**asked)
        if found is None:
            raise NotFound("nobody")
        return found


@caught_by("test_what_the_crm_holds_now_is_read_each_time")
class RemembersContacts(SmallAdapter):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.known: dict[str, Contact | None] = {}

    def find_contact(self, *, email: str = "", phone: str = "", names: Any = ()) -> Contact | None:
        if email + phone not in self.known:
            found = super().find_contact(email=email, phone=phone, names=names)
            self.known[email + phone] = found
        return self.known[email + phone]


@caught_by("test_one_contact_is_never_taken_for_another")
class MixesUpWhatItRemembers(SmallAdapter):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.known: dict[int, Contact] = {}

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        key = len(contact_id)
        if key not in self.known:
            self.known[key] = super().get_contact(contact_id, names)
        return self.known[key]


@caught_by("test_threads_that_share_an_adapter_get_their_own_contact")
class SharesStateBetweenThreads(SmallAdapter):
    wanted = ""

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        self.wanted = contact_id
        self.grant.token()
        found = super().get_contact(contact_id, names)
        return replace(found, id=self.wanted)


@caught_by("test_ids_and_values_are_text", "test_what_is_created_is_there_at_once")
class GivesNumbersForIds(SmallAdapter):
    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        found = super().get_contact(contact_id, names)
        return replace(found, id=cast(str, int(found.id)))

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        saved = super().create_contact(properties, mark=mark)
        return replace(saved, id=cast(str, int(saved.id)))


@caught_by("test_what_is_created_is_there_at_once")
class GivesFloatsForIds(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        saved = super().create_contact(properties, mark=mark)
        return replace(saved, id=str(float(saved.id)))


@caught_by("test_a_value_comes_back_as_it_was_written")
class ReadsZeroAndFalseAsBlank(SmallAdapter):
    def trimmed(self, contact: Contact, names: Sequence[str]) -> Contact:
        held = {n: "" if v in ("0", "false") else v for n, v in contact.properties.items()}
        return super().trimmed(replace(contact, properties=held), names)


@caught_by("test_times_that_the_crm_sets_are_in_utc", "test_changes_begin_with_all_records")
class ReadsALocalTimeAsUtc(SmallAdapter):
    def to_utc(self, local: str) -> str:
        return f"{local.replace(' ', 'T')}.000Z"


@caught_by("test_a_value_of_each_type_has_the_form_of_its_type")
class TakesUtcForALocalTime(ReadsALocalTimeAsUtc):
    def to_local(self, name: str, text: str) -> str:
        return text[:19].replace("T", " ")


@caught_by("test_names_that_are_asked_for_come_back_unless_they_are_unknown")
class MakesUpUnknownNames(SmallAdapter):
    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        found = super().get_contact(contact_id, names)
        return replace(found, properties={name: found.properties.get(name, "") for name in names})


@caught_by("test_names_that_are_asked_for_come_back_unless_they_are_unknown")
class LeavesOutEmptyValues(SmallAdapter):
    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        found = super().get_contact(contact_id, names)
        return replace(found, properties={k: v for k, v in found.properties.items() if v})


@caught_by("test_what_is_stored_is_what_is_read")
class TidiesWhatItReads(SmallAdapter):
    def trimmed(self, contact: Contact, names: Sequence[str]) -> Contact:
        found = super().trimmed(contact, names)
        return replace(found, properties={n: v.strip() for n, v in found.properties.items()})


@caught_by("test_a_wrong_address_is_not_taken_for_nobody")
class TakesAWrongAddressForNobody(SmallAdapter):
    def find_contact(self, **asked: Any) -> Contact | None:
        try:
            return super().find_contact(**asked)
        except BadConfig:
            return None


@caught_by(
    "test_an_id_that_was_never_issued_is_not_found",
    "test_an_id_that_was_never_issued_leads_to_no_other_path",
)
class QuotesNoPath(_ByItself):
    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        answer = self.own_get(contact_id)
        if answer.status_code == 404:
            raise NotFound("there is no such contact")
        return self.contact(cast(requests.Response, answer).json(), names)


# --- Writing ------------------------------------------------------------------------------------


@caught_by(
    "test_an_unknown_property_is_rejected_by_name_or_stored",
    "test_an_unknown_property_of_a_lead_is_told_or_stored",
)
class SwallowsUnknownProperties(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        known = {name: value for name, value in properties.items() if name in (*TEXTS, "status")}
        return super().create_contact(known, mark=mark)


@caught_by("test_leaving_out_what_is_rejected_lets_the_rest_through")
class BlamesEveryProperty(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        try:
            return super().create_contact(properties, mark=mark)
        except Rejected:
            raise Rejected([Problem(name, "wrong") for name in properties]) from None


@caught_by(faulty("400"))
class BlamesTheEmailForEverything(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        try:
            return super().call(method, *path, **options)
        except Rejected as exc:
            raise Rejected(exc.problems or [Problem("email", exc.message)]) from None


@caught_by("test_each_value_is_stored_under_its_own_name")
class SwapsTwoNames(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        return super().create_contact(_swapped(properties), mark=mark)

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        found = super().get_contact(contact_id, names)
        return replace(found, properties=_swapped(found.properties))


def _swapped(properties: Mapping[str, str]) -> Mapping[str, str]:
    if not properties.get("firstname") or not properties.get("lastname"):
        return properties
    first, last = properties["lastname"], properties["firstname"]
    return {**properties, "firstname": first, "lastname": last}


@caught_by("test_each_value_is_stored_under_its_own_name")
class WritesTheMarkOverAName(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        marked = {**properties, "firstname": mark} if "firstname" in properties else properties
        return super().create_contact(marked if mark else properties, mark=mark)


@caught_by("test_a_value_comes_back_as_it_was_written")
class TakesTextForNumbers(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        plain = {k: str(int(v)) if v.isdigit() else v for k, v in properties.items()}
        return super().create_contact(plain, mark=mark)


@caught_by("test_a_value_comes_back_as_it_was_written")
class TidiesBlanks(SmallAdapter):
    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        return super().update_contact(
            contact_id, {name: " ".join(value.split()) for name, value in properties.items()}
        )


@caught_by("test_a_long_value_comes_back_whole_or_is_rejected")
class CutsLongValues(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        cut = {name: value[:1000] for name, value in properties.items()}
        return super().create_contact(cut, mark=mark)


@caught_by("test_an_email_that_is_taken_is_a_conflict_that_names_the_other")
class TakesTheOtherForItsOwn(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        try:
            return super().create_contact(properties, mark=mark)
        except Conflict as exc:
            return Saved(exc.existing_id, "created")


@caught_by("test_a_change_to_nothing_clears_the_property")
class DropsBlanks(SmallAdapter):
    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        filled = {name: value for name, value in properties.items() if value}
        return super().update_contact(contact_id, filled)


@caught_by("test_a_change_is_called_unchanged_only_when_it_is")
class CallsAChangeUnchanged(SmallAdapter):
    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        held = self.get_contact(contact_id, tuple(properties)).properties
        if all(held.get(k, "").lower() == v.lower() for k, v in properties.items()):
            return Saved(contact_id, "unchanged")
        return super().update_contact(contact_id, properties)


@caught_by("test_a_change_leaves_other_properties_and_other_contacts")
class ReplacesTheWholeContact(SmallAdapter):
    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        blank = dict.fromkeys(("firstname", "city"), "")
        return super().update_contact(contact_id, {**blank, **properties})


@caught_by("test_a_deleted_contact_cannot_be_changed")
class MakesWhatWasDeleted(SmallAdapter):
    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        try:
            return super().update_contact(contact_id, properties)
        except NotFound:
            return replace(self.create_contact(properties), outcome="updated")


# --- Deals and tickets --------------------------------------------------------------------------


@caught_by("test_exactly_one_record_is_made_and_linked_to_its_contact")
class DropsTheLink(SmallAdapter):
    def link_new(self, deal_id: str, contact_id: str) -> None:
        pass


@caught_by(faulty("422"))
class UndoesNothing(SmallAdapter):
    def link_new(self, deal_id: str, contact_id: str) -> None:
        self.call("PUT", "deals", deal_id, "contact", contact_id)


@caught_by("test_what_else_bots_send_of_a_record_is_rejected_by_name_or_stored")
class DropsTheDetails(SmallAdapter):
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        known = {n: v for n, v in properties.items() if n not in ("amount", "content")}
        return super().create_for_contact(kind, contact_id, known, mark=mark)


@caught_by("test_a_ticket_of_high_priority_is_not_like_one_of_low")
class DropsThePriority(SmallAdapter):
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        kept = {n: v for n, v in properties.items() if n != "hs_ticket_priority"}
        return super().create_for_contact(kind, contact_id, kept, mark=mark)


@caught_by("test_nothing_is_made_for_a_contact_that_is_not_there")
class MakesTheDealFirst(SmallAdapter):
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        if kind == "tickets":
            return super().create_for_contact(kind, contact_id, properties, mark=mark)
        body = {"properties": dict(properties), "mark": mark}
        id = self.call("POST", "deals", body=body).id()
        self.call("PUT", "deals", id, "contact", contact_id)
        return Saved(id, "created")


@caught_by("test_an_unknown_pipeline_or_stage_is_rejected_by_name_or_made")
class TakesTheUsualStageInstead(SmallAdapter):
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        try:
            return super().create_for_contact(kind, contact_id, properties, mark=mark)
        except Rejected as exc:
            left = {
                name: value
                for name, value in properties.items()
                if name not in {one.name for one in exc.problems}
            }
            return super().create_for_contact(kind, contact_id, left, mark=mark)


@caught_by("test_what_was_never_written_is_not_found")
class IgnoresTheMark(SmallAdapter):
    def find_marked(
        self, kind: Written, contact_id: str, mark: str, **options: Any
    ) -> Saved | None:
        if kind == "contacts":
            return super().find_marked(kind, contact_id, mark, **options)
        found = self.call("GET", "contacts", contact_id, kind).items()
        return Saved(str(found[-1]["id"]), "created") if found else None


@caught_by(
    "test_an_older_record_of_the_same_title_is_not_taken_for_it",
    "test_of_two_alike_each_is_found_by_its_own_mark",
    "test_a_record_of_another_write_is_not_taken_for_it",
)
class LooksAtTheTitleOnly(SmallAdapter):
    def find_marked(
        self, kind: Written, contact_id: str, mark: str, **options: Any
    ) -> Saved | None:
        if kind == "contacts":
            return super().find_marked(kind, contact_id, mark, **options)
        for one in self.call("GET", "contacts", contact_id, kind).items():
            if one["properties"].items() >= options["sent"].items():
                return Saved(str(one["id"]), "created")
        return None


@caught_by("test_of_two_alike_each_is_found_by_its_own_mark")
class KeepsNoMark(LooksAtTheTitleOnly):
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        return super().create_for_contact(kind, contact_id, properties)


@caught_by("test_of_two_alike_each_is_found_by_its_own_mark")
class NeverLooksForItsMark(SmallAdapter):
    find_marked = Adapter.find_marked


@caught_by("test_no_owner_is_made_up")
class GivesADefaultOwner(SmallAdapter):
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        owned = {"hubspot_owner_id": "1"} if kind == "deals" else {}
        return super().create_for_contact(kind, contact_id, owned | dict(properties), mark=mark)


@caught_by("test_no_owner_is_made_up")
class ReplacesAnUnknownOwner(SmallAdapter):
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        sent = {n: "1" if n == "hubspot_owner_id" else v for n, v in properties.items()}
        return super().create_for_contact(kind, contact_id, sent, mark=mark)


@caught_by("test_two_records_of_one_contact_are_two")
class NumbersTitles(SmallAdapter):
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        name, sent = TITLES[kind], dict(properties)
        for one in self.call("GET", "contacts", contact_id, kind).items():
            if one["properties"].get(name) == sent[name]:
                sent[name] += " (2)"
        return super().create_for_contact(kind, contact_id, sent, mark=mark)


@caught_by("test_every_value_of_a_record_is_stored_as_it_was_sent")
class WritesTheMarkOverATitle(SmallAdapter):
    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        sent = dict(properties)
        if mark and "dealstage" in sent:
            sent["dealname"] = mark
        return super().create_for_contact(kind, contact_id, sent, mark=mark)


_LATE = "test_a_write_that_lands_after_its_answer_was_lost_is_made_once"


@caught_by(_LATE)
class TrustsTheFirstLook(SmallAdapter):
    under_way_s = 0.0


@caught_by(_LATE)
class TakesAnEmailTwice(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        rest = {name: value for name, value in properties.items() if name != "email"}
        saved = super().create_contact(rest, mark=mark)
        return self.update_contact(saved.id, properties)

    def may_land_for(self, *args: Any, **options: Any) -> float:
        return 0.0


# --- Leads --------------------------------------------------------------------------------------


class Batching(SmallAdapter):
    """Takes several contacts at once, honestly."""

    batch_size = 100

    def find_contacts(
        self,
        *,
        emails: Sequence[str] = (),
        phones: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> dict[str, Contact]:
        found = {each: self.find_contact(email=each, names=names) for each in emails}
        found |= {each: self.find_contact(phone=each, names=names) for each in phones}
        return {each: one for each, one in found.items() if one is not None}

    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        return [self._written(one) for one in writes]

    def _written(self, write: ContactWrite) -> Saved | AdapterError:
        try:
            if write.contact_id:
                return self.update_contact(write.contact_id, write.properties)
            return self.create_contact(write.properties, mark=write.mark)
        except AdapterError as exc:
            return exc


@caught_by("test_a_lead_that_says_nothing_new_sends_no_write")
class WritesWhatIsUnchanged(SmallAdapter):
    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        return Changes(properties)


@caught_by("test_a_lead_that_says_something_new_is_updated")
class SeesNoChange(SmallAdapter):
    def changes(self, contact: Contact, properties: Mapping[str, str]) -> Changes:
        return Changes({})


@caught_by("test_a_phone_is_looked_for_where_it_was_last_seen")
class TakesEveryPhoneForTheirs(SmallAdapter):
    def has_phone(self, contact: Contact, phone: str) -> bool:
        return True


@caught_by("test_a_former_email_of_a_contact_leads_to_it_no_more")
class TakesEveryEmailForTheirs(SmallAdapter):
    def has_email(self, contact: Contact, email: str) -> bool:
        return True


@caught_by("test_people_of_one_name_are_two_contacts")
class TakesNamesakesForOne(_Searching):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        name = {n: v for n, v in properties.items() if n in ("firstname", "lastname")}
        for one in self.hits(name["lastname"], tuple(name)):
            if len(name) > 1 and one.properties == name:
                raise Conflict("It is a duplicate.", existing_id=one.id, name="email")
        return super().create_contact(properties, mark=mark)


@caught_by("test_a_phone_of_somebody_with_an_email_makes_another_contact")
class TakesAPhoneForOnePerson(_Searching):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        found = self.find_contact(phone=properties["phone"]) if "phone" in properties else None
        if found is not None:
            return self.update_contact(found.id, properties)
        return super().create_contact(properties, mark=mark)


@caught_by("test_a_lead_that_is_tried_again_finds_what_it_has_made")
class ForgetsWhatItMade(SmallAdapter):
    def find_marked(
        self, kind: Written, contact_id: str, mark: str, **options: Any
    ) -> Saved | None:
        if kind == "contacts":
            return None
        return super().find_marked(kind, contact_id, mark, **options)


@caught_by("test_what_became_of_several_leads_comes_in_their_order")
class MixesUpTheBatch(Batching):
    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        found = super().write_contacts(writes)
        return sorted(found, key=lambda one: one.outcome if isinstance(one, Saved) else "")


@caught_by("test_a_lead_that_is_refused_sinks_no_other")
class SinksTheBatch(Batching):
    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        found = super().write_contacts(writes)
        errors = [one for one in found if isinstance(one, AdapterError)]
        return [*errors[:1] * len(found)] if errors else found


@caught_by("test_leads_at_once_go_where_each_would_go_alone")
class FindsNobodyInABatch(Batching):
    def find_contacts(self, **options: Any) -> dict[str, Contact]:
        return {}

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        try:
            return super().create_contact(properties, mark=mark)
        except Conflict as exc:
            return self.update_contact(exc.existing_id, properties)


@caught_by("test_what_is_for_an_empty_place_leaves_a_value_that_is_there")
class ReadsNoValuesInABatch(Batching):
    def find_contacts(self, **options: Any) -> dict[str, Contact]:
        found = super().find_contacts(**options)
        return {each: replace(one, properties={}) for each, one in found.items()}


@caught_by("test_a_write_that_a_batch_leaves_out_was_not_made")
class LeavesOutWhatItWrote(Batching):
    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        found = super().write_contacts(writes)
        failed = any(isinstance(one, AdapterError) for one in found)
        return [None if failed else one for one in found]


@caught_by("test_a_full_batch_is_found_and_written")
class TakesLessThanItSays(Batching):
    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        if len(writes) > 50:
            return [None] * len(writes)
        return super().write_contacts(writes)


@caught_by("test_an_unknown_error_of_one_write_of_a_batch_is_no_outage")
class TakesARefusalForAnOutage(Batching):
    def _written(self, write: ContactWrite) -> Saved | AdapterError:
        outcome = super()._written(write)
        return Unavailable(outcome.message) if isinstance(outcome, Rejected) else outcome


@caught_by("test_what_the_crm_says_of_one_write_of_a_batch_is_masked")
class QuotesAPartOfABatch(Batching):
    def _written(self, write: ContactWrite) -> Saved | AdapterError:
        outcome = super()._written(write)
        if not isinstance(outcome, Rejected):
            return outcome
        answer = self.context.session.request(
            "POST",
            f"{self.context.settings['base_url']}/contacts",
            headers={"Authorization": f"Bearer {self.grant.token()}"},
            data=json.dumps({"properties": write.properties, "mark": ""}).encode(),
            timeout=self.context.remaining(),
        )
        return Rejected([], answer.content.decode())


@caught_by(faulty("reset after"))
class TakesADoubtForNothing(Batching):
    def write_contacts(self, writes: Sequence[ContactWrite]) -> list[Saved | AdapterError | None]:
        found = super().write_contacts(writes)
        return [None if isinstance(one, Uncertain) else one for one in found]


# --- When something goes wrong ------------------------------------------------------------------


@caught_by(faulty("reset after"))
class CallsADoubtUnavailable(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        try:
            return super().call(method, *path, **options)
        except Uncertain as exc:
            raise Unavailable(exc.message) from None


@caught_by("test_calls_that_meet_a_breakdown_of_this_crm_tell_the_truth")
class TrustsAnErrorInASuccess(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        answer = super().call(method, *path, **options)
        if isinstance(answer.body, dict) and "deadlock" in answer.body:
            raise Unavailable("Small CRM broke down.")
        return answer


@caught_by(
    faulty("500"),
    "test_a_create_that_breaks_because_another_took_its_email_leads_to_the_other",
)
class TakesABreakdownForARefusal(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        try:
            return super().call(method, *path, **options)
        except Uncertain as exc:
            raise Rejected([], exc.message) if " 500" in exc.message else exc from None


@caught_by(faulty("reset after"))
class SendsAWriteAgain(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        try:
            return super().call(method, *path, **options)
        except Uncertain:
            return super().call(method, *path, **options)


@caught_by(faulty("closed before"))
class DoubtsWhatItReads(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        return super().call(method, *path, **{"reads": False, **options})


@caught_by(faulty("HTML"))
class TakesADoubtForSuccess(SmallAdapter):
    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        try:
            return super().update_contact(contact_id, properties)
        except Uncertain:
            return Saved(contact_id, "updated")


class TakesNothingForDone(SmallAdapter):
    """No liar: a change that is answered with 204 and no more is done, as far as one can tell."""

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        body = {"properties": dict(properties)}
        answer = self.call("PATCH", "contacts", contact_id, body=body)
        return Saved(contact_id if answer.status == 204 else answer.id(), "updated")


@caught_by(faulty("something else"))
class FindsNobodyWhenItFails(SmallAdapter):
    def find_contact(self, **asked: Any) -> Contact | None:
        try:
            return super().find_contact(**asked)
        except AdapterError:
            return None


@caught_by(faulty("500"), "test_credentials_that_are_refused_are_denied")
class IsAlwaysWell(SmallAdapter):
    def check(self) -> None:
        try:
            super().check()
        except AdapterError:
            return


@caught_by(faulty("something else"))
class StumblesOverShapes(SmallAdapter):
    def pipelines(self, kind: Linked) -> list[Pipeline]:
        found = self.call("GET", "pipelines").body["results"]
        return [Pipeline(id, id, ()) for id in found]


@caught_by(faulty("reset before"))
class LetsOthersErrorsOut(SmallAdapter):
    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        try:
            return super().get_contact(contact_id, names)
        except Unavailable as exc:
            raise ConnectionError(str(exc)) from None


@caught_by("test_a_call_too_many_is_throttled_for_as_long_as_the_crm_says")
class DoesNotWait(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        for _ in range(3):
            try:
                return super().call(method, *path, **options)
            except Throttled:
                continue
        return super().call(method, *path, **options)


@caught_by("test_a_call_too_many_is_throttled_for_as_long_as_the_crm_says")
class ReadsNoDates(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        try:
            return super().call(method, *path, **options)
        except Throttled as exc:
            raise Throttled(exc.message, retry_after=10) from None


class _Unguarded(SmallAdapter):
    """Goes out by itself, as `requests` does when nobody guards it."""

    follow = False

    def __init__(self, context: Context) -> None:
        self._own = requests.Session()
        super().__init__(replace(context, session=cast(Any, self)))

    def request(self, method: str, url: str, **options: Any) -> requests.Response:
        return self._own.request(method, url, allow_redirects=self.follow, **options)


@caught_by("test_a_call_ends_in_time")
class WaitsForEachByte(_Unguarded):
    pass


@caught_by(
    "test_a_redirect_leads_nowhere",
    "test_everything_goes_out_through_the_guarded_session",
)
class FollowsRedirects(_Unguarded):
    follow = True


@caught_by("test_an_answer_that_is_much_too_long_is_not_read_whole")
class ReadsWithoutEnd(_Unguarded):
    pass


@caught_by("test_no_request_is_given_more_time_than_remains")
class TakesItsTime(SmallAdapter):
    def __init__(self, context: Context) -> None:
        super().__init__(replace(context, remaining=lambda: 25.0))


@caught_by("test_every_request_takes_its_turn_in_a_budget")
class SkipsTheBudget(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        return super().call(method, *path, **{"lane": "none", **options})


@caught_by("test_making_an_adapter_calls_nobody")
class CallsFromItsConstructor(SmallAdapter):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.check()


# --- Credentials --------------------------------------------------------------------------------


@caught_by(faulty("400"))
class TellsTheToken(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        try:
            return super().call(method, *path, **options)
        except Rejected as exc:
            raise Rejected([], f"{exc.message} (with {self.grant.token()})") from None


@caught_by(faulty("400 that repeats all"))
class RepeatsWhatTheCrmSays(_ByItself):
    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        answer = self.own_get(contact_id)
        if answer.status_code == 400:
            raise Rejected([], answer.content.decode())
        return super().get_contact(contact_id, names)


@caught_by(faulty("400 that repeats all"))
class KeepsItsSecretsToItself(SmallAdapter):
    """Masks the access token, which each request has in a header, and not the refresh token."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.http._secrets = tuple


@caught_by(faulty("200 that repeats all"))
class RepeatsASuccess(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        answer = super().call(method, *path, **options)
        if isinstance(answer.body, dict) and "message" in answer.body:
            raise answer.broken(str(answer.body["message"]))
        return answer


@caught_by(faulty("400"))
class TellsTheTokenInABatch(Batching):
    def _written(self, write: ContactWrite) -> Saved | AdapterError:
        outcome = super()._written(write)
        if isinstance(outcome, AdapterError):
            outcome.message += self.grant.token()
        return outcome


@caught_by(faulty("reset before"))
class HidesTheTokenInTheCause(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        try:
            return super().call(method, *path, **options)
        except Unavailable as exc:
            raise exc from ValueError(f"with {self.grant.token()}")


@caught_by("test_what_is_created_is_there_at_once")
class LogsTheToken(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        logging.getLogger("small").debug("calling with %s", self.grant.token())
        return super().call(method, *path, **options)


@caught_by("test_what_is_created_is_there_at_once")
class LogsTheEmail(SmallAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        logging.getLogger("small").info("creating %s", properties.get("email"))
        return super().create_contact(properties, mark=mark)


@caught_by(
    "test_the_names_that_bots_use_are_stored_or_rejected_by_name",
    "test_the_names_that_bots_use_for_a_record_are_stored_or_rejected_by_name",
)
class DropsWhatBotsSend(SmallAdapter):
    dropped = ("jobtitle", "closedate")

    def call(self, method: str, *path: str, **options: Any) -> Answer:
        body = options.get("body") or {}
        if "properties" in body:
            kept = {n: v for n, v in body["properties"].items() if n not in self.dropped}
            options["body"] = {**body, "properties": kept}
        return super().call(method, *path, **options)


class HasNoPipelines(SmallAdapter):
    """No liar: its CRM has neither pipelines nor stages, so it overrides no `pipelines`."""

    pipelines = Adapter.pipelines


class KnowsUniqueTitles(SmallAdapter):
    """No liar: it says that its CRM takes a title only once."""

    unique_titles = frozenset({"deals", "tickets"})


class NumbersTakenTitles(KnowsUniqueTitles):
    """Changes a title that is taken."""

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        try:
            return super().create_for_contact(kind, contact_id, properties, mark=mark)
        except Conflict:
            other = {TITLES[kind]: f"{properties[TITLES[kind]]} (2)"}
            return super().create_for_contact(kind, contact_id, {**properties, **other}, mark=mark)


class TakesTheDealOfTheTitle(KnowsUniqueTitles):
    """Returns the record that has the title, whose contact is another."""

    def create_for_contact(self, *args: Any, **options: Any) -> Saved:
        try:
            return super().create_for_contact(*args, **options)
        except Conflict as exc:
            return Saved(exc.existing_id, "created")


class WithAKey(SmallAdapter):
    """No liar: it signs in with a key, and knows the CRM's code for a wrong one."""

    settings = (
        *(one for one in SmallAdapter.settings if not one.secret),
        Setting("key", "Key", secret=True, required=True),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        key = context.credentials["key"]
        self.http._authorize = lambda: {"Authorization": f"Bearer {key}"}
        self.http._renew = lambda: False

    def _failure(self, answer: Answer) -> AdapterError | None:
        if isinstance(answer.body, dict) and answer.body.get("code") == "WRONG_KEY":
            return Denied("Small CRM refuses the key.")
        return super()._failure(answer)


class ReadsTheStatusOfAWrongKey(WithAKey):
    """Takes a wrong key for a missing right, a refused value or nonsense, by the status alone."""

    _failure = SmallAdapter._failure


@caught_by("test_a_wrong_secret_is_told_from_a_missing_right")
class TakesARefusalForAMissingRight(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        try:
            return super().call(method, *path, **options)
        except Denied as exc:
            raise LacksRight(exc.message) from None


@caught_by("test_no_secret_shows")
class ShowsItsToken(SmallAdapter):
    def __repr__(self) -> str:
        return f"SmallAdapter({self.grant.token()})"


class _Renewing(Grant):
    """Renews whenever it is asked, whoever else does."""

    stale = False

    def renew(self) -> bool:
        stored = self._context.credentials if self.stale else self._context.load_credentials()
        self._credentials = self._renewed(stored)
        self._context.save_credentials(self._credentials)
        return True


@caught_by("test_a_token_that_expires_is_renewed_once_for_all")
class RenewsInEveryThread(SmallAdapter):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.grant = _Renewing(context, self.title, self._exchange)
        self.http._renew = self.grant.renew
        self.lock = threading.Lock()


@caught_by("test_what_another_process_has_renewed_is_used")
class KeepsAStaleRefreshToken(RenewsInEveryThread):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        cast(_Renewing, self.grant).stale = True


# --- A copy, notes and tasks --------------------------------------------------------------------


class _Telling(SmallAdapter):
    def told(self, page: ChangedPage) -> ChangedPage:
        return page

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> ChangedPage:
        return self.told(super().changed_since(kind, since, names))


@caught_by("test_lists_are_read_to_their_last_page")
class TellsTheFirstPageOfChanges(_Telling):
    def told(self, page: ChangedPage) -> ChangedPage:
        return replace(page, more=False)


@caught_by("test_changes_go_on_where_they_ended")
class SkipsAChange(_Telling):
    def told(self, page: ChangedPage) -> ChangedPage:
        return replace(page, next=str(int(page.next) + 3))


@caught_by("test_changes_go_on_where_they_ended")
class ForgetsDeletions(_Telling):
    def told(self, page: ChangedPage) -> ChangedPage:
        return replace(page, deleted=())


@caught_by("test_a_merged_contact_is_told_with_the_one_that_is_left")
class TakesAMergeForADeletion(_Telling):
    def told(self, page: ChangedPage) -> ChangedPage:
        return replace(page, deleted=(*page.deleted, *page.merged), merged={})


@caught_by("test_a_record_of_each_kind_is_written_and_told_with_its_contact")
class ForgetsWhoseADealIs(_Telling):
    def told(self, page: ChangedPage) -> ChangedPage:
        return replace(page, records=tuple(replace(one, links={}) for one in page.records))


@caught_by("test_contacts_are_read_by_their_ids_without_deleted_ones")
class ReadsTheFirstHundredIds(SmallAdapter):
    def get_records(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> list[Record]:
        return super().get_records(kind, ids[:100], names)


@caught_by("test_records_of_each_kind_are_read_by_their_ids")
class ReadsRecordsWithoutTheirLinks(SmallAdapter):
    def get_records(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> list[Record]:
        found = super().get_records(kind, ids, names)
        return [replace(one, links={"contacts": ()}) for one in found]


@caught_by("test_what_cannot_be_written_is_refused")
class WritesWhatIsDeleted(SmallAdapter):
    def write(self, kind: Kind, record_id: str, *args: Any, **options: Any) -> Saved:
        try:
            return super().write(kind, record_id, *args, **options)
        except NotFound:
            return super().write(kind, "", *args, **options)


@caught_by("test_an_archived_record_is_gone")
class ArchivesNothing(SmallAdapter):
    def archive(self, kind: Kind, record_id: str) -> None:
        try:
            super().archive(kind, record_id)
        except NotFound:
            return


@caught_by(
    "test_a_new_record_of_each_kind_is_found_without_a_contact",
    "test_a_new_record_of_each_kind_that_lost_its_answer_is_made_once",
)
class FindsNothingWithoutAContact(SmallAdapter):
    def find_marked(self, kind: Kind, contact_id: str, mark: str, **options: Any) -> Saved | None:
        return super().find_marked(kind, contact_id, mark, **options) if contact_id else None


@caught_by("test_a_new_record_of_each_kind_is_found_without_a_contact")
class FindsAnOlderRecord(SmallAdapter):
    def find_marked(
        self, kind: Kind, contact_id: str, mark: str, *, sent: Mapping[str, str], since_ms: int
    ) -> Saved | None:
        if contact_id:
            return super().find_marked(kind, contact_id, mark, sent=sent, since_ms=since_ms)
        records = self.changed_since(kind, "", list(sent)).records
        return next((Saved(one.id, "created") for one in records if one.properties == sent), None)


@caught_by(
    "test_an_association_is_made_once_told_and_removed",
    "test_associations_are_those_that_records_tell",
)
class LinksNothing(SmallAdapter):
    def link(self, *args: Any, **options: Any) -> None:
        return


@caught_by("test_an_association_is_made_once_told_and_removed")
class ReplacesALink(SmallAdapter):
    def link(
        self, kind: Kind, record_id: str, to: Kind, to_id: str, *, remove: bool = False
    ) -> None:
        try:
            super().link(kind, record_id, to, to_id, remove=remove)
        except Conflict as exc:
            super().link(kind, record_id, to, exc.existing_id, remove=True)
            super().link(kind, record_id, to, to_id)


@caught_by("test_an_association_is_made_once_told_and_removed")
class LinksInOneOrderOnly(SmallAdapter):
    def link(self, kind: Kind, *args: Any, **options: Any) -> None:
        if kind == "contacts":
            raise Unsupported("Name the deal first.")
        super().link(kind, *args, **options)


@caught_by("test_two_records_are_merged_into_the_kept_one")
class MergesTheOtherWay(SmallAdapter):
    def merge(self, kind: Kind, kept_id: str, other_id: str) -> Saved:
        return super().merge(kind, other_id, kept_id)


@caught_by("test_two_records_are_merged_into_the_kept_one")
class MergesNothing(SmallAdapter):
    def merge(self, kind: Kind, kept_id: str, other_id: str) -> Saved:
        return Saved(self.get_contact(kept_id, ()).id, "updated")


@caught_by("test_a_webhook_of_the_crm_names_what_changed_and_another_is_denied")
class BelievesEveryWebhook(SmallAdapter):
    def events(self, request: WebhookRequest) -> list[Event]:
        kind, id = json.loads(request.body)["changed"]
        return [Event(kind, str(id))]


@caught_by("test_a_note_is_added_once_and_as_it_was_written", faulty("reset after"))
class AddsANoteAgain(SmallAdapter):
    def add_note(self, *args: Any, mark: str = "", **options: Any) -> Saved:
        try:
            return super().add_note(*args, **options)
        except Uncertain:
            return super().add_note(*args, **options)


@caught_by("test_a_note_is_added_once_and_as_it_was_written")
class AddsMarkup(SmallAdapter):
    def call(self, method: str, *path: str, **options: Any) -> Answer:
        if path[-1] == "notes":
            values = options["body"]["values"]
            values["text"] = html.unescape(values["text"])
        return super().call(method, *path, **options)


@caught_by("test_a_task_is_created_once_with_what_was_sent")
class DropsTheDueDate(SmallAdapter):
    def create_task(self, contact_id: str, properties: Mapping[str, str], **options: Any) -> Saved:
        kept = {name: text for name, text in properties.items() if name != "due"}
        return super().create_task(contact_id, kept, **options)


# --- What the class says --------------------------------------------------------------------------


@caught_by(
    "test_its_guides_are_sentences_and_links",
    "test_oauth_goes_to_addresses_and_stores_declared_secrets",
)
class GuidesToNowhere(SmallAdapter):
    guides = (Guide("Make a token", (Step("Here.", "http://small.example.test", ""),)),)

    @classmethod
    def oauth(cls, settings: Mapping[str, str]) -> OAuth | None:
        # It declares neither client id nor client secret.
        base = settings["base_url"]
        return OAuth(f"{base}/authorize", f"{base}/token", ("contacts",))
