"""Cursors of listings: signed texts that contain all data needed to read the next page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import orjson

from crmhub.errors import BadRequest
from crmhub.records.search.filters import Filter
from crmhub.secrets import same, sign

_SIGNATURE = 16
# Raised when the meaning of the fields changes; older cursors must go on being read.
_FORM = 1
_NO_FILTERS = hashlib.sha256().hexdigest()[:16]


class Cursor(NamedTuple):
    """The state of a listing after a page; it does not expire.

    `key` and `id` are those of the last record, `filters` is a hash, `total` is of the first page.
    `caught_up` is -1 until the end, then the number of changed records returned. `counted`:
    `packed` ids of a small result. `everything`: all records of the kind, 0 if not counted.
    `since` is part of the hash, too: former versions of the hub do not read it.
    """

    account_id: int
    kind: int
    sort: str
    descending: bool
    limit: int
    properties: tuple[str, ...] | None
    include: tuple[str, ...]
    filters: str
    total: int
    started: int
    key: int
    id: int
    settled: int = 0
    shown: tuple[int, ...] = ()
    caught_up: int = -1
    counted: str = ""
    everything: int = 0
    since: tuple[tuple[str, int], ...] = ()

    def seal(self, signing_key: bytes) -> str:
        return sealed([_FORM, *self], signing_key)


_INVALID = "cursor: this is no cursor that the hub gave for this listing; start without one"


def unseal(text: str, signing_key: bytes, *, account_id: int, kind: int) -> Cursor:
    """Raises BadRequest, also for another account or kind."""
    form, *fields = unsealed(text, signing_key)
    if form != _FORM:
        raise BadRequest(_INVALID)
    # An older cursor lacks the last fields.
    named = dict(zip(Cursor._fields, fields, strict=False))
    named["include"] = tuple(named["include"])
    named["shown"] = tuple(named["shown"])
    named["since"] = tuple((column, first) for column, first in named.get("since", ()))
    if named["properties"] is not None:
        named["properties"] = tuple(named["properties"])
    cursor = Cursor(**named)
    if (cursor.account_id, cursor.kind) != (account_id, kind):
        raise BadRequest(_INVALID)
    return cursor


def sealed(value: Sequence[Any], signing_key: bytes) -> str:
    """The text needs no escaping in a URL."""
    payload = orjson.dumps(value)
    return base64.urlsafe_b64encode(sign(signing_key, payload) + payload).decode().rstrip("=")


def unsealed(text: str, signing_key: bytes) -> list[Any]:
    """Raises BadRequest."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise BadRequest(_INVALID) from None
    signature, payload = raw[:_SIGNATURE], raw[_SIGNATURE:]
    # Encoded again it must be the same text: base64 has several forms for some bytes.
    again = base64.urlsafe_b64encode(raw).decode().rstrip("=")
    if again != text or not same(signature, sign(signing_key, payload)):
        raise BadRequest(_INVALID)
    value: list[Any] = orjson.loads(payload)
    return value


def packed(ids: Iterable[int]) -> str:
    steps, last = bytearray(), 0
    for id in sorted(ids):
        step, last = id - last, id
        while step > 127:
            steps.append(128 | step & 127)
            step >>= 7
        steps.append(step)
    return base64.urlsafe_b64encode(steps).decode()


def unpacked(text: str) -> list[int]:
    """In ascending order."""
    ids, last, step, shift = list[int](), 0, 0, 0
    for byte in base64.urlsafe_b64decode(text):
        step |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            last += step
            ids.append(last)
            step = shift = 0
    return ids


def fingerprint(filters: Sequence[Filter], since: Sequence[tuple[str, int]]) -> str:
    """The hash does not depend on the order of the filters and times."""
    if not (filters or since):
        return _NO_FILTERS
    texts = sorted(orjson.dumps(bound) for bound in since)
    texts += sorted(
        orjson.dumps(
            [
                search_filter.property_name,
                search_filter.operator,
                search_filter.value,
                search_filter.values,
            ]
        )
        for search_filter in filters
    )
    return hashlib.sha256(b"\n".join(texts)).hexdigest()[:16]
