"""Cursors: opaque, signed, never expiring; each carries the whole of the listing it continues."""

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
# The hash of none.
_NO_FILTERS = hashlib.sha256().hexdigest()[:16]


class Cursor(NamedTuple):
    """Where a listing stands: what is listed, and the last record that was given out.

    `sort` is a column, `filters` a hash; `total` is what was counted at the first page, `started`,
    `settled` and `shown` are the `search.Start` of the listing. `caught_up` is how many records
    have come since the listing came to its end and began to catch up with what changed meanwhile,
    -1 before. `counted` is `packed`: the ids that were counted, of few. `everything` is how many
    records there were, 0 where nobody has asked.
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

    def seal(self, signing_key: bytes) -> str:
        """Return the cursor as text that needs no escaping in a URL."""
        return sealed([_FORM, *self], signing_key)


_INVALID = "cursor: this is no cursor that the hub gave for this listing; start without one"


def unseal(text: str, signing_key: bytes, *, account_id: int, kind: int) -> Cursor:
    """Return the cursor that `seal` made of it; BadRequest when it is none of this listing's."""
    form, *fields = unsealed(text, signing_key)
    if form != _FORM:
        raise BadRequest(_INVALID)
    # An older cursor lacks the last fields.
    named = dict(zip(Cursor._fields, fields, strict=False))
    named["include"] = tuple(named["include"])
    named["shown"] = tuple(named["shown"])
    if named["properties"] is not None:
        named["properties"] = tuple(named["properties"])
    cursor = Cursor(**named)
    if (cursor.account_id, cursor.kind) != (account_id, kind):
        raise BadRequest(_INVALID)
    return cursor


def sealed(value: Sequence[Any], signing_key: bytes) -> str:
    """Return JSON values as signed text that needs no escaping in a URL."""
    payload = orjson.dumps(value)
    return base64.urlsafe_b64encode(sign(signing_key, payload) + payload).decode().rstrip("=")


def unsealed(text: str, signing_key: bytes) -> list[Any]:
    """Return the values that `sealed` made the text of; BadRequest when it did not."""
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
    """Return ids as a text that is short where they lie close together."""
    steps, last = bytearray(), 0
    for id in sorted(ids):
        step, last = id - last, id
        while step > 127:
            steps.append(128 | step & 127)
            step >>= 7
        steps.append(step)
    return base64.urlsafe_b64encode(steps).decode()


def unpacked(text: str) -> list[int]:
    """Return the ids that `packed` made the text of, in rising order."""
    ids, last, step, shift = list[int](), 0, 0, 0
    for byte in base64.urlsafe_b64decode(text):
        step |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            last += step
            ids.append(last)
            step = shift = 0
    return ids


def fingerprint(filters: Sequence[Filter]) -> str:
    """Return a short hash that is the same for the same filters in any order."""
    if not filters:
        return _NO_FILTERS
    texts = sorted(
        orjson.dumps([each.property_name, each.operator, each.value, each.values])
        for each in filters
    )
    return hashlib.sha256(b"\n".join(texts)).hexdigest()[:16]
