"""The control endpoints of a fake CRM for tests: `/_control/…`, without an access token.

GET    state          numbers of records, limits with their counts, tokens, faults
GET    requests       the recorded calls without their bodies
GET    faults         the injected faults; POST adds one or a list, DELETE removes all
POST   reset          discard the whole state
POST   settings       change settings; if one of them is invalid, none is changed
POST   expire         make all access tokens invalid
POST   index          let searches see all records at once
GET    records/KIND   all records of a kind; POST adds {"properties": {…}, "contacts": [ids]}
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from adapters.fakes import faults, limits
from adapters.fakes.answers import Answer, Refused

if TYPE_CHECKING:
    from adapters.fakes.fake import Fake

PREFIX = "/_control"

Order = Callable[[Any, Any], Answer]
"""An endpoint: called with the fake and the JSON of the request. Raises ValueError, TypeError or
KeyError for an invalid request."""


class Setting(NamedTuple):
    """A setting of a fake: the function that validates a value and the one that applies it.

    `check` is called with the fake, the setting's name and the value from the request; it returns
    the value to apply, or raises ValueError. `change` is called with the fake and that value.
    """

    check: Callable[[Any, str, Any], Any]
    change: Callable[[Any, Any], None]


def answer(fake: Fake, method: str, path: str, body: bytes) -> Answer:
    """Execute a control request and return its response.

    The status is 400 if the request is invalid, 404 if there is no such endpoint.
    """
    place = path.removeprefix(PREFIX).strip("/")
    try:
        given = orjson.loads(body) if body else {}
        with fake.lock:
            if place.startswith("records/"):
                return _records(fake, method, place.removeprefix("records/"), given)
            if order := _ORDERS.get((method, place)):
                return order(fake, given)
    except Refused as exc:
        return exc.answer()
    except (ValueError, TypeError, KeyError) as exc:
        return Answer(400, {"message": f"{type(exc).__name__}: {exc}"})
    paths = ", ".join(sorted(f"{how} {PREFIX}/{what}" for how, what in _ORDERS))
    return Answer(404, {"message": f"There are {paths} and {PREFIX}/records/KIND"})


def as_object(given: Any) -> dict[str, Any]:
    """Return the JSON of a request if it is an object; raise ValueError if not."""
    if not isinstance(given, dict):
        raise ValueError("an object is needed")
    return given


def check_number(fake: Fake, name: str, value: Any) -> float:
    """Return a setting's value if it is a number from 0 on; raise ValueError if not."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{name}: a number from 0 on, and not {value!r}")
    return value


def check_flag(fake: Fake, name: str, value: Any) -> bool:
    """Return a setting's value if it is a boolean; raise ValueError if not."""
    if not isinstance(value, bool):
        raise ValueError(f"{name}: true or false, and not {value!r}")
    return value


def _at_once(fake: Fake, name: str, value: Any) -> int | None:
    return None if value is None else int(check_number(fake, name, value))


def _form(fake: Fake, name: str, value: Any) -> Any:
    if value not in ("none", "seconds", "date"):
        raise ValueError(f"{name}: one of none, seconds, date")
    return value


def _limit(fake: Fake, name: str, value: Any) -> tuple[int | None, float]:
    return limits.parse(str(value), usual=fake.windows[name].seconds)


def _scopes(fake: Fake, name: str, value: Any) -> frozenset[str]:
    known: frozenset[str] = fake.tokens.known_scopes if fake.tokens else frozenset()
    if not isinstance(value, list) or not set(value) <= known:
        raise ValueError(f"{name}: a list of {', '.join(sorted(known))}")
    return frozenset(value)


def attribute(check: Callable[[Any, str, Any], Any], name: str, of: str = "") -> Setting:
    """Return a setting that is kept in the attribute `name` of a fake, or of its attribute `of`."""
    return Setting(
        check, lambda fake, value: setattr(getattr(fake, of) if of else fake, name, value)
    )


def rate_limit(name: str) -> Setting:
    """Return a setting that changes the rate limit `name` of the fake's `windows`."""
    return Setting(_limit, lambda fake, value: fake.windows[name].change(*value))


SETTINGS: dict[str, Setting] = {
    "search_lag": attribute(check_number, "search_lag"),
    "latency": attribute(check_number, "latency"),
    "retry_after": attribute(_form, "retry_after"),
}
"""The settings of every fake."""
AT_ONCE_SETTINGS: dict[str, Setting] = {"at_once": attribute(_at_once, "most", of="at_once")}
"""The settings of a fake that limits the calls at the same time."""
TOKEN_SETTINGS: dict[str, Setting] = {
    "scopes": attribute(_scopes, "scopes", of="tokens"),
    "rotates": attribute(check_flag, "rotates", of="tokens"),
    "expires_in": attribute(check_number, "expires_in", of="tokens"),
}
"""The settings of a fake with access tokens."""


def _records(fake: Fake, method: str, kind: str, given: Any) -> Answer:
    records = fake.stored(kind)
    if method == "POST":
        properties = as_object(as_object(given)["properties"])
        return Answer(201, {"id": fake.add(kind, properties, contacts=given.get("contacts", ()))})
    return Answer(
        200,
        {
            id_: {
                "properties": record.properties,
                "associations": {to: fake.linked(kind, id_, to) for to in fake.kinds},
            }
            for id_, record in records.items()
        },
    )


def _state(fake: Fake, given: Any) -> Answer:
    tokens = fake.tokens
    return Answer(
        200,
        {
            "records": {kind: len(fake.stored(kind)) for kind in fake.kinds},
            "windows": {item.name: item.counted() for item in fake.windows.values()},
            "atOnce": fake.at_once.counted(),
            "refreshes": tokens.refreshes if tokens else 0,
            "refusedRefreshes": tokens.refused_refreshes if tokens else 0,
            "faults": [asdict(item) for item in fake.faults.waiting],
            "searchLag": fake.search_lag,
            "latency": fake.latency,
        },
    )


def _requests(fake: Fake, given: Any) -> Answer:
    listed = [
        {
            "at": request.at,
            "method": request.method,
            "path": request.path,
            "query": request.query,
            "status": request.status,
            "fault": request.fault,
        }
        for request in fake.requests
    ]
    return Answer(200, {"requests": listed})


def _list_faults(fake: Fake, given: Any) -> Answer:
    return Answer(200, {"faults": [asdict(fault) for fault in fake.faults.waiting]})


def _add_faults(fake: Fake, given: Any) -> Answer:
    wanted = [faults.parse(fault) for fault in (given if isinstance(given, list) else [given])]
    for fault in wanted:
        fake.faults.add(fault)
    return _list_faults(fake, given)


def _clear_faults(fake: Fake, given: Any) -> Answer:
    fake.faults.clear()
    return Answer(204)


def _reset(fake: Fake, given: Any) -> Answer:
    fake.reset()
    return Answer(204)


def _settings(fake: Fake, given: Any) -> Answer:
    known = {**fake.settings, **{name: rate_limit(name) for name in fake.windows}}
    changes = []
    for name, value in as_object(given).items():
        if name not in known:
            raise ValueError(f"{name}: there are {', '.join(known)}")
        changes.append((known[name].change, known[name].check(fake, name, value)))
    for change, value in changes:
        change(fake, value)
    return _state(fake, given)


def _expire(fake: Fake, given: Any) -> Answer:
    fake.expire_tokens()
    return Answer(204)


def _index(fake: Fake, given: Any) -> Answer:
    fake.index()
    return Answer(204)


_ORDERS: dict[tuple[str, str], Order] = {
    ("GET", "state"): _state,
    ("GET", "requests"): _requests,
    ("GET", "faults"): _list_faults,
    ("POST", "faults"): _add_faults,
    ("DELETE", "faults"): _clear_faults,
    ("POST", "reset"): _reset,
    ("POST", "settings"): _settings,
    ("POST", "expire"): _expire,
    ("POST", "index"): _index,
}
