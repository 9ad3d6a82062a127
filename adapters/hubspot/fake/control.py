"""The control endpoints of the fake HubSpot for tests: `/_control/…`, without an access token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from adapters.fakes import faults, limits
from adapters.hubspot.fake import shapes
from adapters.hubspot.fake.answers import Answer, Refused
from adapters.hubspot.fake.definitions import KINDS
from adapters.hubspot.fake.linking import linked
from adapters.hubspot.fake.portal import Rules
from adapters.hubspot.fake.tokens import SCOPES, SENSITIVE_SCOPES
from adapters.hubspot.fake.writing import create

if TYPE_CHECKING:
    from adapters.hubspot.fake.fake import FakeHubSpot

PREFIX = "/_control"


def _condition(value: Any, where: str) -> tuple[str, str, list[str]]:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError(f"{where}: a property, its value and the list of what it then needs")
    name, expected, needed = value
    names: list[str] = shapes.each(shapes.text)(needed, where)
    return shapes.text(name, where), shapes.text(expected, where), names


_RECORD = shapes.shape({"properties": shapes.texts}, {"associations": shapes.ASSOCIATIONS})

_RULES = shapes.shape(
    {}, {"required": shapes.each(shapes.text), "conditional": shapes.each(_condition)}
)

_Order = Callable[["FakeHubSpot", Any], Answer]


def answer(fake: FakeHubSpot, method: str, path: str, body: bytes) -> Answer:
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


def _records(fake: FakeHubSpot, method: str, named: str, given: Any) -> Answer:
    kind = fake.portal.kind(named)
    if method == "POST":
        asked = _RECORD(given, "")
        record = create(fake.portal, kind, asked["properties"], asked.get("associations", []))
        record.index()
        return Answer(201, {"id": record.id})
    return Answer(
        200,
        {
            id_: {
                "properties": record.properties,
                "associations": {to: sorted(linked(fake.portal, record, to)) for to in KINDS},
            }
            for id_, record in fake.portal.records[kind].items()
        },
    )


def _state(fake: FakeHubSpot, given: Any) -> Answer:
    windows = (fake.general, fake.searches, fake.token_calls)
    return Answer(
        200,
        {
            "portalId": fake.portal.portal_id,
            "records": {kind: len(records) for kind, records in fake.portal.records.items()},
            "windows": {item.name: item.counted() for item in windows},
            "refreshes": fake.tokens.refreshes,
            "refusedRefreshes": fake.tokens.refused_refreshes,
            "faults": [asdict(item) for item in fake.faults.waiting],
            "searchLag": fake.portal.search_lag,
            "latency": fake.latency,
        },
    )


def _requests(fake: FakeHubSpot, given: Any) -> Answer:
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


def _list_faults(fake: FakeHubSpot, given: Any) -> Answer:
    return Answer(200, {"faults": [asdict(fault) for fault in fake.faults.waiting]})


def _add_faults(fake: FakeHubSpot, given: Any) -> Answer:
    wanted = [faults.parse(fault) for fault in (given if isinstance(given, list) else [given])]
    for fault in wanted:
        fake.faults.add(fault)
    return _list_faults(fake, given)


def _clear_faults(fake: FakeHubSpot, given: Any) -> Answer:
    fake.faults.clear()
    return Answer(204)


def _reset(fake: FakeHubSpot, given: Any) -> Answer:
    fake.reset()
    return Answer(204)


def _settings(fake: FakeHubSpot, given: Any) -> Answer:
    """Change settings of the fake to the values in the request body.

    If one of the settings is invalid, none is changed.
    """
    changes = []
    for name, value in _object(given).items():
        if name not in _SETTINGS:
            raise ValueError(f"{name}: there are {', '.join(_SETTINGS)}")
        check, change = _SETTINGS[name]
        changes.append((change, check(name, value)))
    for change, value in changes:
        change(fake, value)
    return _state(fake, given)


def _rules(fake: FakeHubSpot, given: Any) -> Answer:
    """Set which properties the account requires, for each kind of record.

    An example of the body: {"deals": {"required": ["amount"], "conditional": [["dealtype", "other",
    ["amount"]]]}}
    """
    rules_of_kind = {}
    for named, rules in _object(given).items():
        kind = fake.portal.kind(named)
        given_rules = _RULES(rules, named)
        rules_of_kind[kind] = Rules(
            required=tuple(given_rules.get("required", ())),
            conditional=tuple(
                (name, value, tuple(needed))
                for name, value, needed in given_rules.get("conditional", ())
            ),
        )
        names = [
            *rules_of_kind[kind].required,
            *(name for condition in rules_of_kind[kind].conditional for name in condition[2]),
        ]
        for name in [*names, *(condition[0] for condition in rules_of_kind[kind].conditional)]:
            if name not in fake.portal.definitions[kind]:
                raise ValueError(f"{name}: {kind} have no such property")
    fake.portal.rules.update(rules_of_kind)
    return Answer(204)


def _object(given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise ValueError("an object is needed")
    return given


def _expire(fake: FakeHubSpot, given: Any) -> Answer:
    fake.expire_tokens()
    return Answer(204)


def _index(fake: FakeHubSpot, given: Any) -> Answer:
    fake.index()
    return Answer(204)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ValueError(f"{name}: a number from 0 on, and not {value!r}")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name}: true or false, and not {value!r}")
    return value


def _limit(name: str, value: Any) -> tuple[int | None, float]:
    return limits.parse(str(value), usual=1.0 if name == "search_limit" else 10.0)


def _form(name: str, value: Any) -> Any:
    if value not in ("none", "seconds", "date"):
        raise ValueError(f"{name}: one of none, seconds, date")
    return value


def _scopes(name: str, value: Any) -> frozenset[str]:
    known = SCOPES | SENSITIVE_SCOPES
    if not isinstance(value, list) or not set(value) <= known:
        raise ValueError(f"{name}: a list of {', '.join(sorted(known))}")
    return frozenset(value)


# For each setting, the function that validates it and the function that applies it.
_SETTINGS: dict[str, tuple[Callable[[str, Any], Any], Callable[[FakeHubSpot, Any], None]]] = {
    "search_lag": (_number, lambda fake, value: setattr(fake.portal, "search_lag", value)),
    "latency": (_number, lambda fake, value: setattr(fake, "latency", value)),
    "limit": (_limit, lambda fake, value: fake.general.change(*value)),
    "search_limit": (_limit, lambda fake, value: fake.searches.change(*value)),
    "token_limit": (_limit, lambda fake, value: fake.token_calls.change(*value)),
    "daily_limit": (_number, lambda fake, value: setattr(fake.portal, "daily_limit", int(value))),
    "retry_after": (_form, lambda fake, value: setattr(fake, "retry_after", value)),
    "scopes": (_scopes, lambda fake, value: setattr(fake.tokens, "scopes", value)),
    "rotates": (_flag, lambda fake, value: setattr(fake.tokens, "rotates", value)),
    "expires_in": (_number, lambda fake, value: setattr(fake.tokens, "expires_in", value)),
}
_ORDERS: dict[tuple[str, str], _Order] = {
    ("GET", "state"): _state,
    ("GET", "requests"): _requests,
    ("GET", "faults"): _list_faults,
    ("POST", "faults"): _add_faults,
    ("DELETE", "faults"): _clear_faults,
    ("POST", "reset"): _reset,
    ("POST", "settings"): _settings,
    ("POST", "rules"): _rules,
    ("POST", "expire"): _expire,
    ("POST", "index"): _index,
}
