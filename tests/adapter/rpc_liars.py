"""Adapters of Roster that lie, each in its own way, with the tests that must catch them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from crmhub.adapter import (
    Adapter,
    AdapterError,
    Conflict,
    Context,
    Denied,
    LacksRight,
    Rejected,
    Throttled,
)
from crmhub.adapter.http import Answer
from crmhub.adapter.tables import Write
from tests.adapter.liars import faulty
from tests.adapter.rpc_adapter import RosterAdapter, failure

CAUGHT_BY: dict[type[Adapter], tuple[str, ...]] = {}
"""The tests that must fail for each liar."""
_OWN = "test_an_error_of_this_crm_is_recognized"


def caught_by(*tests: str) -> Callable[[type[RosterAdapter]], type[RosterAdapter]]:
    def note(liar: type[RosterAdapter]) -> type[RosterAdapter]:
        CAUGHT_BY[liar] = tests
        return liar

    return note


class _Reading(RosterAdapter):
    """Reads the CRM's errors with a function of its own."""

    def failure(self, answer: Answer) -> AdapterError | None:
        return failure(answer)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._http._failure = self._login._failure = self.failure


@caught_by(_OWN)
class ReadsTheStatusOnly(_Reading):
    def failure(self, answer: Answer) -> AdapterError | None:
        return failure(answer) if answer.status >= 300 else None


@caught_by(_OWN)
class QuotesWithoutAMask(_Reading):
    def failure(self, answer: Answer) -> AdapterError | None:
        return failure(answer) if answer.status >= 300 else None

    def _call(self, method: str, **options: Any) -> Answer:
        answer = super()._call(method, **options)
        error = failure(answer)
        if error is not None:
            raise error
        return answer


@caught_by(_OWN)
class RenewsForWantOfARight(_Reading):
    def failure(self, answer: Answer) -> AdapterError | None:
        error = failure(answer)
        return Denied(error.message) if isinstance(error, LacksRight) else error


@caught_by("test_an_error_of_the_token_endpoint_is_recognized")
class TakesAPauseForARefusal(_Reading):
    def failure(self, answer: Answer) -> AdapterError | None:
        error = failure(answer)
        return None if isinstance(error, Throttled) and answer.status == 400 else error


@caught_by("test_an_address_may_end_with_a_slash")
class GluesAddresses(RosterAdapter):
    def _log_in(self, credentials: Mapping[str, str]) -> Mapping[str, Any]:
        # A server that is not strict takes this, the fake does not.
        url = f"{self.context.settings['login_url']}/session/"
        self.context.session.request("POST", url, headers={}, data=b"{}", timeout=5.0)
        return super()._log_in(credentials)


@caught_by("test_what_is_created_is_there_at_once")
class SavesWhatItDoesNotDeclare(RosterAdapter):
    def _log_in(self, credentials: Mapping[str, str]) -> Mapping[str, Any]:
        self.context.save_credentials({**credentials, "last_login": "today"})
        return super()._log_in(credentials)


@caught_by("test_no_more_calls_than_allowed_are_made_at_the_same_time")
class CallsWithoutEnd(RosterAdapter):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._http._places = None


@caught_by("test_a_budget_counts_what_requests_cost")
class CountsCallsInsteadOfCredits(RosterAdapter):
    def _call(self, method: str, **options: Any) -> Answer:
        return super()._call(method, **{**options, "cost": 1})


@caught_by("test_a_value_of_each_type_has_the_form_of_its_type")
class WritesTypesInItsOwnWay(RosterAdapter):
    def get_contact(self, contact_id: str, names: Any) -> Any:
        found = super().get_contact(contact_id, names)
        values = {n: "yes" if v == "true" else v for n, v in found.properties.items()}
        return type(found)(found.id, values)


@caught_by("test_false_and_zero_are_values")
class ReadsFalseAndZeroAsBlank(RosterAdapter):
    def get_contact(self, contact_id: str, names: Any) -> Any:
        found = super().get_contact(contact_id, names)
        values = {n: "" if v in ("false", "0") else v for n, v in found.properties.items()}
        return type(found)(found.id, values)


@caught_by("test_everything_goes_out_through_the_guarded_session")
class ChecksNothing(RosterAdapter):
    def check(self) -> None:
        pass


@caught_by(faulty("400"))
class TellsAShortPassword(RosterAdapter):
    def _call(self, method: str, **options: Any) -> Answer:
        try:
            return super()._call(method, **options)
        except Rejected as exc:
            raise Rejected(
                [], f"{exc.message} for {self.context.credentials['password']}"
            ) from None


@caught_by("test_an_email_that_is_taken_in_another_case_is_taken")
class ComparesEmailsWithTheirCase(RosterAdapter):
    def find_contact(self, *, email: str = "", **asked: Any) -> Any:
        found = super().find_contact(email=email.lower(), names=("email",), **asked)
        return found if found and found.properties["email"] == email else None

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Any:
        email = properties["email"]
        with self.context.lease("all emails", 10.0):
            if holder := self.find_contact(email=email):
                raise Conflict("This email is taken.", existing_id=holder.id, name="email")
            return self._write(Write("contacts", properties, mark))


@caught_by("test_creates_of_one_email_at_once_make_one_contact_in_whatever_case")
class LeasesEmailsWithTheirCase(RosterAdapter):
    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Any:
        with self.context.lease(f"email {properties['email']}", 10.0):
            if holder := self.find_contact(email=properties["email"].lower()):
                raise Conflict("This email is taken.", existing_id=holder.id, name="email")
            return self._write(Write("contacts", properties, mark))


@caught_by("test_a_new_process_does_not_sign_in_again")
class SignsInForItself(RosterAdapter):
    signed_in = False

    def get_contact(self, contact_id: str, names: Any) -> Any:
        if not self.signed_in:
            self._log_in(self.context.credentials)
            self.signed_in = True
        return super().get_contact(contact_id, names)
