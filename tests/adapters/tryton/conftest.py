"""A Tryton for the tests of this directory; they are left out where it is not installed.

`make test-tryton` runs all of them. Else the essential ones run: a
walk from a lead to a deal and a ticket, the number of calls, and what of the conformance tests
shows soonest that Tryton is no longer what the adapter takes it for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import databases
from tests.adapters.tryton.tryton_crm import TrytonCrm
from tests.depth import ALL
from tests.tryton import server

_ESSENTIAL = {
    "test_a_change_leaves_other_properties_and_other_contacts",
    "test_a_change_to_nothing_clears_the_property",
    "test_a_connection_that_works_passes_its_check",
    "test_a_contact_that_was_written_is_found",
    "test_a_deleted_contact_is_not_found",
    "test_a_lead_that_lost_its_answer_makes_one_contact_when_it_is_tried_again",
    "test_a_phone_is_found_with_spaces",
    "test_a_token_that_expires_is_renewed_once_for_all",
    "test_a_write_is_found_by_its_mark",
    "test_an_email_is_found_in_whatever_case_it_is_stored",
    "test_an_email_that_is_taken_is_a_conflict_that_names_the_other",
    "test_an_unknown_property_is_rejected_by_name_or_stored",
    "test_each_value_is_stored_under_its_own_name",
    "test_exactly_one_record_is_made_and_linked_to_its_contact",
    "test_nothing_is_made_for_a_contact_that_is_not_there",
    "test_what_is_created_is_there_at_once",
}
_WHOLE = {"test_tryton_calls.py", "test_tryton_copy.py", "test_tryton_walk.py"}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect all but the essential tests of this directory, unless all are asked for."""
    left_out = [] if ALL else [item for item in items if _is_left_out(item)]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)


def _is_left_out(item: pytest.Item) -> bool:
    here = item.path.parent == Path(__file__).parent
    name = item.name.partition("[")[0]
    # What needs no Tryton takes no time.
    needs_tryton = "tryton" in getattr(item, "fixturenames", ())
    return here and needs_tryton and item.path.name not in _WHOLE and name not in _ESSENTIAL


@pytest.fixture(scope="session")
def tryton() -> Iterator[server.Tryton]:
    """A running Tryton without the library `phonenumbers`, one for each worker."""
    if reason := databases.left_out("tryton"):
        pytest.skip(f"Tryton left out: {reason}")
    with server.tryton() as tryton:
        yield tryton


@pytest.fixture(scope="session")
def whole_crm(tryton: server.Tryton) -> Iterator[TrytonCrm]:
    crm = TrytonCrm(tryton)
    yield crm
    crm.sql.close()


@pytest.fixture
def tryton_crm(whole_crm: TrytonCrm) -> TrytonCrm:
    """The Tryton, without contacts, deals and tickets."""
    whole_crm.empty()
    return whole_crm
