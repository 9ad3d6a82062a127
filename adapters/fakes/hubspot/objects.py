"""The endpoints of the fake HubSpot for records: list, create, read, update, search, merge."""

from __future__ import annotations

from typing import Any

from adapters.fakes.answers import Answer
from adapters.fakes.hubspot import shapes
from adapters.fakes.hubspot.answers import Refused
from adapters.fakes.hubspot.calls import Call
from adapters.fakes.hubspot.definitions import KINDS, SINGULAR, TYPE_IDS
from adapters.fakes.hubspot.linking import shown_links
from adapters.fakes.hubspot.portal import Record, shown
from adapters.fakes.hubspot.searching import MAX_BODY, search
from adapters.fakes.hubspot.writing import create, merge, update

_MAX_PAGE = 100
_MAX_PAGE_WITH_HISTORY = 50


def list_records(call: Call) -> Answer:
    """Respond with a page of the records of a kind, ordered by id.

    The last record's id is the cursor with which the next page is requested.
    """
    history = call.names("propertiesWithHistory")
    limit = call.integer("limit", 10, most=_MAX_PAGE_WITH_HISTORY if history else _MAX_PAGE)
    after = call.cursor()
    records = call.portal.archived if call.flag("archived") else call.portal.records
    ids = sorted(int(id_) for id_ in records[call.kind] if int(id_) > after)
    body: dict[str, Any] = {
        "results": [_shown(call, records[call.kind][str(id_)]) for id_ in ids[:limit]]
    }
    if len(ids) > limit:
        last = str(ids[limit - 1])
        link = f"https://api.hubapi.com{call.path}?limit={limit}&after={last}"
        body["paging"] = {"next": {"after": last, "link": link}}
    return Answer(200, body)


def create_record(call: Call) -> Answer:
    """Create a record, and respond with it (201) and the header Location."""
    given = call.json(shapes.CREATE)
    record = create(call.portal, call.kind, given["properties"], given["associations"])
    body = shown(call.portal, record, names=list(record.properties), with_url=_with_url(call))
    return Answer(201, body, {"Location": f"{call.path}/{record.id}"})


def read_record(call: Call) -> Answer:
    """Respond with one record, found by its id or by a unique property."""
    if call.flag("archived"):
        return Answer(200, _shown(call, call.portal.load_archived(call.kind, call.at["id"])))
    return Answer(200, _shown(call, _loaded(call)))


def update_record(call: Call) -> Answer:
    """Update properties of a record; respond with the record and the updated properties."""
    given = call.json(shapes.UPDATE)["properties"]
    record = _loaded(call)
    update(call.portal, record, given)
    return Answer(200, shown(call.portal, record, names=list(given), with_url=_with_url(call)))


def archive_record(call: Call) -> Answer:
    """Archive a record.

    The status is 204 even if the record does not exist.
    """
    if record := call.portal.find(call.kind, call.at["id"]):
        call.portal.remove(record)
    return Answer(204)


def search_records(call: Call) -> Answer:
    """Respond with a page of the records that match a search."""
    if len(call.body.decode(errors="replace")) > MAX_BODY:
        raise Refused(400, f"The request body is longer than {MAX_BODY} characters")
    found = search(call.portal, call.kind, call.json(shapes.SEARCH), call.search_lag)
    return Answer(200, found)


def merge_records(call: Call) -> Answer:
    """Merge two records, and respond with the resulting record, which has a new id."""
    given = call.json(shapes.MERGE)
    primary, other = (
        call.portal.load(call.kind, given[name]) for name in ("primaryObjectId", "objectIdToMerge")
    )
    return Answer(200, shown(call.portal, merge(call.portal, primary, other)))


def gdpr_delete(call: Call) -> Answer:
    """Delete a record permanently; the status is 204.

    If the record is named by an unknown email, the status is 204 as well; for an unknown id it is
    404.
    """
    given = call.json(shapes.GDPR_DELETE)
    record = call.portal.find(call.kind, given["objectId"], given.get("idProperty"))
    if record is None and given.get("idProperty") != "email":
        call.portal.load(call.kind, given["objectId"], given.get("idProperty"))
    if record:
        call.portal.remove(record, archive=False)
    return Answer(204)


def _loaded(call: Call) -> Record:
    return call.portal.load(call.kind, call.at["id"], call.given("idProperty"))


def _with_url(call: Call) -> bool:
    # The URL of a record has been observed only in responses of the dated versions.
    return call.version != "v3"


def _shown(call: Call, record: Record) -> dict[str, Any]:
    body = shown(
        call.portal,
        record,
        names=call.names("properties"),
        history=call.names("propertiesWithHistory"),
        with_url=_with_url(call),
    )
    if wanted := call.names("associations"):
        # Unknown kinds of records are ignored (HubSpot's API reference).
        kinds = [kind for kind in KINDS if {kind, SINGULAR[kind], TYPE_IDS[kind]} & set(wanted)]
        if links := shown_links(call.portal, record, kinds):
            body["associations"] = links
    return body
