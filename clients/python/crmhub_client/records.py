"""Contacts, deals, companies and tickets: one group of operations serves all four."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar

import httpx

from crmhub_client.changes import Bookmark, clock
from crmhub_client.errors import (
    ApiError,
    HubClientError,
    ManyRequestError,
    NoAnswerError,
    NotFoundError,
    UnavailableError,
)
from crmhub_client.notes import NoteOperations
from crmhub_client.operations import (
    AsyncGroup,
    Driver,
    Effect,
    Found,
    Inputs,
    Steps,
    SyncGroup,
    Take,
    Walk,
    in_path,
    new_key,
    opened,
    operation,
    parsed,
    walk,
)
from crmhub_client.results import Batch, Kind, Page, Record
from crmhub_client.retries import Sleep
from crmhub_client.values import (
    Filter,
    Order,
    Properties,
    Sort,
    Value,
    encode,
    filter_json,
    properties_json,
    time_text,
)

T = TypeVar("T")
Links = Mapping[Kind, Sequence[int]]

_MAX_INPUTS = 100
# The hub takes bodies of 1 MiB.
_MAX_BYTES = 1_000_000
# What cannot be a segment of a path is read by a batch of one.
_NO_SEGMENTS = ("", ".", "..", "search", "merge")


@dataclass(frozen=True, slots=True)
class New:
    """Properties of a record in a batch, with links to existing records."""

    properties: Properties
    associations: Links = field(default_factory=dict)


class RecordOperations(NoteOperations):
    """The records of one kind. Methods raise the errors of `crmhub_client.errors`.

    A POST that writes carries an Idempotency-Key, so that a retry is never carried out twice. Give
    an `idempotency_key` of your own to repeat a call in another process.
    """

    def __init__(self, driver: Driver, kind: Kind) -> None:
        super().__init__(driver)
        self.kind: Kind = kind

    @operation
    def create(
        self,
        properties: Properties,
        *,
        associations: Links | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[Record]:
        """Create a record and return it, with its `etag`."""
        body = _new_json(New(properties, associations or {}))
        return (yield from self._record("POST", self.kind, body, key=new_key(idempotency_key)))

    @operation
    def get(
        self,
        id: int | str,
        *,
        id_property: str | None = None,
        properties: Iterable[str] | None = None,
        associations: Iterable[Kind] | None = None,
    ) -> Steps[Record]:
        """Return a record by its id or, with `id_property`, by a value of that unique property.

        `properties`: return these only. `associations`: kinds of links to return even if there are
        none. A value with a slash is read by a batch, whose records have no `etag`.
        """
        path = f"{self.kind}/{in_path(id)}"
        asked = {"idProperty": id_property, "properties": properties, "associations": associations}
        if id_property is None or not (str(id) in _NO_SEGMENTS or "/" in str(id)):
            return (yield from self._record("GET", path, params=_params(asked)))
        found = yield from self._read([id], id_property, properties)
        if not found:
            message = f"There is no record of {self.kind} with this {id_property}."
            raise NotFoundError(message, status=404, category="NotFoundError")
        return found[0]

    @operation
    def update(
        self,
        id: int,
        properties: Properties,
        *,
        associations: Links | None = None,
        if_match: str | None = None,
    ) -> Steps[Record]:
        """Change the named properties of a record and return it; None or "" clears one.

        `associations`: links to add.

        `if_match`: the `etag` of the record as it was read. Raises ConflictError if the record has
        changed since then; with its `uncertain`, an earlier attempt of this call may have changed
        it.
        """
        body = _new_json(New(properties, associations or {}))
        path, headers = f"{self.kind}/{in_path(id)}", _if_match(if_match)
        return (yield from self._record("PATCH", path, body, headers=headers))

    @operation
    def archive(self, id: int, *, if_match: str | None = None) -> Steps[None]:
        """Archive a record: it is in no answer any more. `if_match` as in `update`."""
        path = f"{self.kind}/{in_path(id)}"
        yield from self._api("DELETE", path, headers=_if_match(if_match))

    @operation
    def restore(self, id: int, *, idempotency_key: str | None = None) -> Steps[Record]:
        """Bring back a record that was archived within 90 days, with its links, and return it.

        Raises NotFoundError, and ConflictError if it is not archived or another record has its
        unique value by now (`existing_id`).
        """
        path = f"{self.kind}/{in_path(id)}/restore"
        return (yield from self._record("POST", path, key=new_key(idempotency_key)))

    @operation
    def merge(
        self,
        keep: int,
        merge: int,
        properties: Properties | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> Steps[Record]:
        """Merge the record `merge` into `keep`, and return that; contacts and companies only.

        `keep` has the values that it lacked from the other one, and then `properties`.
        """
        body: dict[str, Any] = {"keep": keep, "merge": merge}
        if properties is not None:
            body["properties"] = properties_json(properties)
        path = f"{self.kind}/merge"
        return (yield from self._record("POST", path, body, key=new_key(idempotency_key)))

    @walk
    def archived(
        self,
        *,
        sort: Sort = "createdAt",
        order: Order = "asc",
        properties: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
        page_size: int = 100,
    ) -> Walk[Record]:
        """Iterate over the archived records of the last 90 days, with their `archived_at`."""
        query = _query(None, sort, order, _list(properties), _list(include), page_size, "")
        query["archived"] = "true"
        while True:
            page = yield from self._page(query)
            yield Found(page.results)
            if not page.has_more:
                return
            query = {"limit": page_size, "cursor": page.cursor}

    @walk
    def all(
        self,
        *,
        filters: Sequence[Filter] | None = None,
        sort: Sort = "createdAt",
        order: Order = "asc",
        properties: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
        cursor: str = "",
        page_size: int = 100,
        updated_since: datetime | None = None,
        created_since: datetime | None = None,
    ) -> Walk[Record]:
        """Iterate over all records that pass all filters, page by page.

        Sorted by `createdAt`, each record that exists at the first page and stays comes exactly
        once. `include`: associations, createdAt, updatedAt. `cursor`: begin behind that page.
        `updated_since`, `created_since`: only records with this time or a later one.
        """
        names, fields = _list(properties), _list(include)
        since = (updated_since, created_since)
        while True:
            body = _query(filters, sort, order, names, fields, page_size, cursor, since)
            page = yield from self._page(body)
            yield Found(page.results)
            if not page.has_more:
                return
            cursor = page.cursor

    @operation
    def page(
        self,
        *,
        filters: Sequence[Filter] | None = None,
        sort: Sort | None = None,
        order: Order | None = None,
        properties: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
        limit: int | None = None,
        cursor: str = "",
        updated_since: datetime | None = None,
        created_since: datetime | None = None,
    ) -> Steps[Page]:
        """Return one page. A `cursor` continues its listing; with `filters`, send these again."""
        names, fields = _list(properties), _list(include)
        since = (updated_since, created_since)
        query = _query(filters, sort, order, names, fields, limit, cursor, since)
        return (yield from self._page(query))

    @walk
    def changes(
        self,
        since: Bookmark | datetime | None = None,
        *,
        properties: Iterable[str] | None = None,
        include: Iterable[str] | None = None,
        overlap: float = 60,
        every: float | None = None,
    ) -> Walk[Record]:
        """Iterate over the records that have changed since a time or bookmark; None: all.

        Then over those archived since, whose `archived_at` is set. No change is missed; some may
        come again, such as those of a page that was not handled to its end. The bookmark moves with
        each page. `overlap`: a change may be visible so many seconds after its `updated_at`, and
        comes all the same. `every`: look again after so many seconds, for ever, and wait while the
        hub is unavailable. A record that was erased, or was archived over 90 days ago, does not
        come.
        """
        bookmark = since if isinstance(since, Bookmark) else Bookmark(since=since)
        bookmark.open(f"{self._driver.settings.client_id}/{self.kind}")
        shown = {"properties": _list(properties), "include": [*(_list(include) or ()), "updatedAt"]}
        while True:
            try:
                complete = yield from self._changes(bookmark, shown, overlap)
                yield from self._archivals(bookmark, shown, complete)
            except (ManyRequestError, UnavailableError, NoAnswerError) as exc:
                if every is None:
                    raise
                yield Sleep(getattr(exc, "retry_after", None) or every)
                continue
            if every is None:
                return
            yield Sleep(every)

    @operation
    def search(
        self,
        filters: Sequence[Filter],
        *,
        sort: Sort | None = None,
        order: Order | None = None,
        properties: Iterable[str] | None = None,
        limit: int | None = None,
    ) -> Steps[Page]:
        """Return the first page of the records that pass all filters; `all` walks on."""
        body = _query(filters, sort, order, _list(properties), None, limit, "")
        return (yield from self._page(body))

    @operation
    def count(self, filters: Sequence[Filter] | None = None) -> Steps[int]:
        """Return how many records pass all filters."""
        page = yield from self._page(_query(filters, None, None, None, None, 1, ""))
        return page.total

    @operation
    def create_many(
        self,
        inputs: Inputs[Properties | New],
        *,
        partial: bool = False,
        idempotency_key: str | None = None,
    ) -> Steps[Batch]:
        """Create records, a hundred in a request; each hundred is stored as a whole or not at all.

        With `partial`, the good inputs are stored, and the others are in the result's `errors`.
        Without, the first refused hundred raises: the error's `done` is what was stored before,
        `errors` are the problems. Both number the inputs as the caller does.
        """
        return (
            yield from self._batch("create", inputs, _new_json, partial, new_key(idempotency_key))
        )

    @operation
    def update_many(
        self,
        inputs: Inputs[tuple[int, Properties | New]],
        *,
        partial: bool = False,
        idempotency_key: str | None = None,
    ) -> Steps[Batch]:
        """Change records, given as `(id, properties)`; the rest as in `create_many`.

        A `New` in place of the properties adds its links.
        """
        key = new_key(idempotency_key)
        return (yield from self._batch("update", inputs, _change_json, partial, key))

    @operation
    def upsert_many(
        self,
        inputs: Inputs[Properties | New | tuple[Value, Properties | New]],
        *,
        by: str,
        partial: bool = False,
        idempotency_key: str | None = None,
    ) -> Steps[Batch]:
        """Change or create records; `by` is the unique property that finds them.

        An input has that property among its properties, or is `(value, properties)`; a `New` in
        place of the properties adds its links. The results'
        `is_new` says which were created; the rest as in `create_many`. Raises ValueError for an
        input without `by`.
        """
        key = new_key(idempotency_key)
        return (
            yield from self._batch("upsert", inputs, lambda i: _upsert_json(i, by), partial, key)
        )

    @operation
    def archive_many(self, ids: Inputs[int], *, idempotency_key: str | None = None) -> Steps[int]:
        """Archive records and return how many; a hundred with an unknown id is refused whole."""
        key = new_key(idempotency_key)
        batch = yield from self._batch("archive", ids, lambda id: {"id": id}, False, key)
        return batch.sent

    @walk
    def read_many(
        self,
        ids: Inputs[int | str],
        *,
        id_property: str | None = None,
        properties: Iterable[str] | None = None,
    ) -> Walk[Record]:
        """Iterate over the records with these ids, or with these values of `id_property`.

        Those that do not exist are left out.
        """
        source, names = opened(ids), _list(properties)
        while taken := (yield Take(source, _MAX_INPUTS)):
            yield Found((yield from self._read(taken, id_property, names)))

    @operation
    def link(self, id: int, to: Kind, to_id: int) -> Steps[None]:
        """Link a record with a record of the kind `to`; both ends show it."""
        yield from self._api("PUT", f"{self._links(id, to)}/{in_path(to_id)}")

    @operation
    def unlink(self, id: int, to: Kind, to_id: int) -> Steps[None]:
        """Remove a link. Raises NotFoundError if there is none."""
        yield from self._api("DELETE", f"{self._links(id, to)}/{in_path(to_id)}")

    @walk
    def associations(self, id: int, to: Kind) -> Walk[int]:
        """Iterate over the ids of all records of the kind `to` with which a record is linked."""
        params = {"limit": "100"}
        while True:
            page: Any = yield from self._api("GET", self._links(id, to), params=params)
            yield Found(page["results"])
            if not page["hasMore"]:
                return
            params = {"cursor": page["cursor"]["next"]}

    def _links(self, id: int, to: Kind) -> str:
        return f"{self.kind}/{in_path(id)}/associations/{in_path(to)}"

    def _record(self, method: str, path: str, body: Any = None, **options: Any) -> Steps[Record]:
        response = yield from self._api_response(method, path, body, **options)
        etag = response.headers.get("ETag", "")
        return parsed(response, lambda raw: Record.parse(raw, etag))

    def _changes(
        self, bookmark: Bookmark, shown: Mapping[str, Any], overlap: float
    ) -> Generator[Effect | Found[Record], Any, str]:
        """One pass, which ends with what has changed before it began.

        Returns the time before which all changes have come. What is newer is read again in the next
        pass: a change may be committed behind a page that has been read.
        """
        changed = bookmark.changed
        query = {"sort": "updatedAt", "order": "asc", "limit": 100, **shown}
        query["updatedSince"] = changed.since or None
        began = complete = ""
        while True:
            page, headers = yield from self._page_of_changes(query)
            if not began:
                began, complete = clock(headers, overlap)
                # What was archived before the first pass has never come.
                bookmark.archived.since = bookmark.archived.since or complete
            places = [(each.id, each.raw["updatedAt"]) for each in page.results]
            yield Found(changed.new(page.results, places))
            is_last = not page.has_more or places[-1][1] > began
            changed.add(places, complete if is_last else min(places[-1][1], complete))
            bookmark.save()
            if is_last:
                return complete
            query = {"cursor": page.cursor}

    def _archivals(
        self, bookmark: Bookmark, shown: Mapping[str, Any], complete: str
    ) -> Walk[Record]:
        """From the newest back to the bookmark, which moves at the end alone."""
        query = {"archived": "true", "sort": "archivedAt", "order": "desc", "limit": 100, **shown}
        read: list[tuple[int, str]] = []
        while True:
            page, _ = yield from self._page_of_changes(query)
            places = [(each.id, each.raw["archivedAt"]) for each in page.results]
            yield Found(bookmark.archived.new(page.results, places))
            read += places
            if not page.has_more or (places and places[-1][1] < bookmark.archived.since):
                break
            query = {"cursor": page.cursor}
        bookmark.archived.add(read, complete)
        bookmark.save()

    def _page_of_changes(self, query: Mapping[str, Any]) -> Steps[tuple[Page, httpx.Headers]]:
        response = yield from self._api_response("GET", self.kind, params=_params(query))
        return parsed(response, Page.parse), response.headers

    def _page(self, query: Mapping[str, Any]) -> Steps[Page]:
        if "filters" in query:
            path = f"{self.kind}/search"
            return (yield from self._api("POST", path, query, parse=Page.parse))
        params = _params(query)
        return (yield from self._api("GET", self.kind, params=params, parse=Page.parse))

    def _read(
        self, ids: Sequence[int | str], by: str | None, properties: Iterable[str] | None
    ) -> Steps[list[Record]]:
        body: dict[str, Any] = {"inputs": [{"id": each} for each in ids]}
        body |= _given({"idProperty": by, "properties": _list(properties)})
        path = f"{self.kind}/batch/read"
        return (yield from self._api("POST", path, body, parse=_records))

    def _batch(
        self,
        verb: str,
        inputs: Inputs[T],
        as_json: Callable[[T], dict[str, Any]],
        partial: bool,
        key: str,
    ) -> Steps[Batch]:
        """Send inputs of any number in requests that the hub takes. `key` begins their keys."""
        batch, source = Batch(), opened(inputs)
        path, params = f"{self.kind}/batch/{verb}", {"partial": "true"} if partial else {}
        while taken := (yield Take(source, _MAX_INPUTS)):
            for part in _parts([as_json(each) for each in taken]):
                body = {"inputs": part}
                try:
                    answer: Any = yield from self._api(
                        "POST", path, body, params=params, key=f"{key}/{batch.sent}"
                    )
                except HubClientError as exc:
                    exc.done = batch
                    if isinstance(exc, ApiError):
                        exc.shift(batch.sent)
                    raise
                batch.add(answer, len(part))
        return batch


class Records(RecordOperations, SyncGroup):
    """The records of one kind, for Hub."""


class AsyncRecords(RecordOperations, AsyncGroup):
    """The records of one kind, for AsyncHub."""


def _query(
    filters: Sequence[Filter] | None,
    sort: Sort | None,
    order: Order | None,
    properties: Sequence[str] | None,
    include: Sequence[str] | None,
    limit: int | None,
    cursor: str,
    since: tuple[datetime | None, datetime | None] = (None, None),
) -> dict[str, Any]:
    """Return the options of a page as JSON. A cursor brings all but filters and limit along."""
    given: dict[str, Any] = {"limit": limit, "cursor": cursor or None}
    if not cursor:
        given |= {"sort": sort, "order": order, "properties": properties, "include": include}
        times = [None if each is None else time_text(each) for each in since]
        given |= zip(("updatedSince", "createdSince"), times, strict=True)
    if filters is not None:
        given["filters"] = [filter_json(each) for each in filters]
    return _given(given)


def _params(options: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: str(value) if isinstance(value, str | int) else ",".join(value)
        for name, value in _given(options).items()
    }


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _list(names: Iterable[str] | None) -> list[str] | None:
    # A text is an iterable of its letters.
    return [names] if isinstance(names, str) else None if names is None else list(names)


def _if_match(etag: str | None) -> dict[str, str]:
    return {} if etag is None else {"If-Match": etag}


def _records(raw: Any) -> list[Record]:
    return [Record.parse(each) for each in raw]


def _new_json(new: Properties | New) -> dict[str, Any]:
    if not isinstance(new, New):
        return {"properties": properties_json(new)}
    links = {kind: list(ids) for kind, ids in new.associations.items()}
    body: dict[str, Any] = {"properties": properties_json(new.properties)}
    return body | ({"associations": links} if links else {})


def _change_json(change: tuple[int, Properties | New]) -> dict[str, Any]:
    id, changed = change
    return {"id": id, **_new_json(changed)}


def _upsert_json(
    given: Properties | New | tuple[Value, Properties | New], by: str
) -> dict[str, Any]:
    if isinstance(given, tuple):
        value, written = given
    else:
        new = given if isinstance(given, New) else New(given)
        if by not in new.properties:
            raise ValueError(f"an input of upsert_many has no {by!r}, by which it would be found")
        value = new.properties[by]
        rest = {name: each for name, each in new.properties.items() if name != by}
        written = New(rest, new.associations)
    return {"idProperty": by, "id": properties_json({by: value})[by], **_new_json(written)}


def _parts(items: Sequence[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    """Cut items into lists whose JSON is small enough for a request each."""
    part: list[dict[str, Any]] = []
    size = 0
    for item in items:
        length = len(encode(item)) + 1
        if part and size + length > _MAX_BYTES:
            yield part
            part, size = [], 0
        part.append(item)
        size += length
    yield part
