from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import quote

import pytest

from crmhub.adapter import Adapter, AdapterError, Linked, Throttled, Unsupported
from crmhub.adapter.testing.base import new_mark, phone_number
from crmhub.adapter.testing.connection import Connection, SharedTexts
from crmhub.adapter.testing.crm import HttpCrm
from crmhub.adapter.testing.faults import in_pages_of_one
from crmhub.adapter.testing.finding import WRONG_IDS
from crmhub.adapter.testing.operation import Operation, first_kind
from crmhub.adapter.testing.operations import operations_of
from crmhub.adapter.testing.proxy import FaultProxy, Request, passed
from crmhub.adapter.testing.reads import Check, Get, Reads, changed
from crmhub.adapter.testing.wire import WireTests, for_each_operation
from crmhub.adapter.upserts import upsert_contact

_HOUR, _DAY = 3600, 86_400


class OutgoingTests(WireTests):
    def test_making_an_adapter_calls_nobody(
        self, connection: Connection, proxy: FaultProxy
    ) -> None:
        connection.adapter()
        assert (proxy.requests, connection.outgoing.calls) == ([], 0)
        assert (connection.saved, connection.leases.granted) == ([], {})

    @for_each_operation
    def test_everything_goes_out_through_the_guarded_session(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> None:
        ready = self._ready(connection, crm, proxy, operation)
        connection.outgoing.calls = 0
        ready.call(connection.adapter())
        assert connection.outgoing.calls == len(proxy.requests)

    @for_each_operation
    def test_every_request_takes_its_turn_in_a_budget(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> None:
        ready, adapter = self._budgeted(connection, crm, proxy, operation)
        before = sum(one.taken for one in connection.budgets.values())
        ready.call(adapter)
        taken = sum(one.taken for one in connection.budgets.values()) - before
        assert taken >= len(proxy.requests)

    @pytest.mark.usefixtures("impatient")
    @for_each_operation
    def test_nothing_goes_out_when_the_budgets_are_used_up(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> None:
        ready, adapter = self._budgeted(connection, crm, proxy, operation)
        sends = self._requests(connection, crm, proxy, operation)
        proxy.clear()
        for budget in connection.budgets.values():
            budget.refusing = _HOUR
        if sends:
            for error in self._errors(ready, adapter):
                assert isinstance(error, Throttled)
                assert error.retry_after == _HOUR
        assert proxy.requests == []
        for budget in connection.budgets.values():
            budget.refusing = None

    def _budgeted(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy, operation: type[Operation]
    ) -> tuple[Operation, Adapter]:
        """Skip the test if the adapter uses no rate limits."""
        adapter = connection.adapter()
        Get(self, crm, adapter)
        if not connection.budgets:
            pytest.skip(f"{self.adapter_class.title} uses no budgets")
        return self._ready(connection, crm, proxy, operation), connection.adapter()

    def test_an_id_that_was_never_issued_leads_to_no_other_path(
        self, adapter: Adapter, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        id = crm.add_contact(self.person())
        for call in self.calls_by_id(adapter):
            proxy.clear()
            with suppress(Unsupported):
                call(id)
            usual = {_shape(request, id) for request in proxy.requests}
            for form in WRONG_IDS.values():
                wrong = form.replace("{id}", id)
                proxy.clear()
                with suppress(AdapterError):
                    call(wrong)
                strange = {_shape(request, wrong) for request in proxy.requests} - usual
                assert not strange, f"the id {wrong[:40]!r} leads elsewhere"

    def test_lists_are_read_to_their_last_page(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        """Test that everything is found and described if each page holds one record."""
        if not self.paging:
            pytest.skip("the test class names no paging: the CRM lists everything in one answer")
        reads = [
            operation(self, crm, connection.adapter())
            for operation in operations_of(self.adapter_class)
            if issubclass(operation, Reads) and operation is not Check
        ]
        since_ms = int(time.time() * 1000)
        email, phone = self.person()["email"], phone_number()
        # Of three that a search for a part finds, only the one in the middle is meant.
        people = [
            self.person(email=f"{part}{email}", phone=f"{phone}{digit}")
            for part, digit in (("jo", "1"), ("", ""), ("mary", "2"))
        ]
        ids = [crm.add_contact(person) for person in people]
        marked = self._marked_deals(connection.adapter(), ids[1])
        # Without the definitions that the first adapter has read.
        connection.shared = SharedTexts()
        adapter = connection.adapter()
        proxy.inject(in_pages_of_one(self.paging), times=None)
        found: dict[str, tuple[object, object]] = {
            read.name: (read.call(adapter), read.expected) for read in reads
        }
        assert re.search(self.paging, "".join(request.quoted for request in proxy.requests)), (
            f"no request has a page size that {self.paging!r} finds"
        )
        for by in ("email", "phone"):
            meant = self.shown(lambda: adapter.find_contact(**{by: people[1][by]}))  # noqa: B023
            found[f"find_contact by a part of {by}"] = meant and meant.id, ids[1]
        for mark, (kind, sent, id) in marked.items():
            deal = adapter.find_marked(kind, ids[1], mark, sent=sent, since_ms=since_ms)
            found[f"find_marked of {sent}"] = deal and deal.id, id
        if adapter.can("find_contacts"):
            several = adapter.find_contacts(emails=[person["email"] for person in people])
            found["find_contacts"] = sorted(one.id for one in several.values()), sorted(ids)
        cut = [name for name, (got, expected) in found.items() if got != expected]
        assert not cut, f"only the first page was read: {', '.join(cut)}"

    def test_a_record_that_changes_between_two_pages_hides_no_other(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        self.announced("changed_since")
        if not self.paging or not hasattr(crm, "make_older"):
            pytest.skip("the test class names no paging, or the fake CRM has no make_older")
        ids = {crm.add_contact(self.person()) for _ in range(4)}
        # What changed just now is told twice, since walks overlap: that would hide a gap.
        crm.make_older(_DAY)
        adapter = connection.adapter()
        proxy.inject(in_pages_of_one(self.paging), times=None)
        page = adapter.changed_since("contacts", "", [self.text])
        first = {one.id for one in page.records}
        for id in first:
            adapter.update_contact(id, {self.text: "Changed"})
        records, pages = changed(adapter, "contacts", page.next, [self.text])
        records |= changed(adapter, "contacts", pages[-1].next, [self.text])[0]
        assert ids <= first | records.keys(), (
            "a record that changed after the first page has shifted the pages, and another is never"
            " told: walk by id, or ask again from the last record's time"
        )
        assert {records[id].properties[self.text] for id in first} == {"Changed"}

    def _marked_deals(
        self, adapter: Adapter, contact_id: str
    ) -> dict[str, tuple[Linked, Mapping[str, str], str]]:
        """Create three deals, or tickets, if `find_marked` finds them; return them by mark."""
        made: dict[str, tuple[Linked, Mapping[str, str], str]] = {}
        for nth in range(3) if adapter.can("find_marked") else ():
            mark, sent = new_mark(), {kind: self.title(kind, f"No. {nth}") for kind in self.titles}
            kind, saved = first_kind(
                self,
                lambda kind: adapter.create_for_contact(kind, contact_id, sent[kind], mark=mark),  # noqa: B023
            )
            made[mark] = kind, sent[kind], saved.id
        return made

    def test_a_lead_that_says_nothing_new_sends_no_write(
        self, adapter: Adapter, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        mine = self.person()
        crm.add_contact(mine)
        said = {**mine, self.text: "New"}
        proxy.inject(passed, times=None)
        assert upsert_contact(adapter, self.lead(said)).outcome == "updated"
        writes = {self.procedure(one) for one in proxy.requests if one.wrote}
        writes -= {self.procedure(one) for one in proxy.requests if not one.wrote}
        proxy.clear()
        assert upsert_contact(adapter, self.lead(said)).outcome == "unchanged"
        assert not [one.said for one in proxy.requests if self.procedure(one) in writes]

    def test_an_address_may_end_with_a_slash(
        self, connection: Connection, crm: HttpCrm, proxy: FaultProxy
    ) -> None:
        kept = {setting.name for setting in self.adapter_class.settings if setting.kept}
        mine = {n for n, text in self.credentials.items() if "{" not in text} - kept
        email, held = self.person()["email"], connection.credentials
        paths: list[list[str]] = []
        for end in ("", "/"):
            other = self._connection({name: f"{url}{end}" for name, url in proxy.urls.items()})
            # A refresh token may have been replaced; without a stored token, each signs in.
            other.credentials |= {name: held[name] for name in mine}
            proxy.clear()
            other.adapter().find_contact(email=email)
            other.outgoing.close()
            held = other.credentials
            # The values of a query may hold the time.
            paths.append([request.target.partition("?")[0] for request in proxy.requests])
        assert paths[0] == paths[1]


def _shape(request: Request, id: str) -> tuple[str, str]:
    try:
        quoted = quote(id, safe="")
    except UnicodeEncodeError:
        return request.method, request.target
    alone = rf"(?<![\w%]){re.escape(quoted)}(?![\w%])" if quoted else "(?!)"
    return request.method, re.sub(alone, "<id>", request.target)
