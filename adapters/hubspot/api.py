"""HubSpot's API: paths, credentials, rate limits, lists of records, and error responses."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crmhub.adapter import (
    AdapterError,
    Conflict,
    Context,
    Denied,
    Kind,
    LacksRight,
    NotFound,
    Outcome,
    Problem,
    Rejected,
    Saved,
    Throttled,
    Unavailable,
    Uncertain,
)
from crmhub.adapter.answers import objects_in, text_of, usual_failure, value_at
from crmhub.adapter.http import GENERAL, Answer, Http
from crmhub.adapter.oauth import Grant, refresh_form
from crmhub.adapter.remembered import Remembered

SEARCH = "search"
_OAUTH = "oauth"
# The limits until a response has rate limit headers. HubSpot allows each app 100 calls in 10 s, and
# each account 5 searches per second, which all of its apps share (HubSpot's usage guidelines).
_CALLS, _CALLS_SECONDS = 100, 10.0
_SEARCHES = 4
BATCH = 100
"""The most records that one call may read or write."""
_SPARE_S = 1.0
"""The seconds that must be left for a call that finds the URL of a record's page."""
_COUNT = re.compile(r"[1-9][0-9]{0,8}", re.ASCII)
TYPE_IDS: Mapping[Kind, str] = {
    "contacts": "0-1",
    "companies": "0-2",
    "deals": "0-3",
    "tickets": "0-5",
}
# Default waits. The daily limit resets at midnight in the account's time zone.
_BURST_S, _SEARCH_S, _DAILY_S, _LOCKED_S = 10.0, 1.0, 900.0, 2.0
_SHOWN = 300
_EXISTING_ID = re.compile(r"Existing ID:\s*([0-9]+)|(?<![0-9])([0-9]+) already has that value")


class MissingScopes(LacksRight):
    """The access token lacks a right (scope), as HubSpot itself says, and no proxy on the way."""


class TooLong(Rejected):
    """HubSpot refuses a request because its URL is too long (status 414)."""


class Api:
    def __init__(self, context: Context, *, title: str) -> None:
        self._context = context
        self._grant = Grant(context, title, self._exchange, token="access_token")
        self._version = context.settings["api_version"]
        budgets = {
            GENERAL: context.budget(GENERAL, calls=_CALLS, seconds=_CALLS_SECONDS),
            SEARCH: context.budget(SEARCH, calls=_SEARCHES, seconds=1.0),
            _OAUTH: context.budget(_OAUTH, calls=_CALLS, seconds=_CALLS_SECONDS),
        }
        self._general = budgets[GENERAL]
        self.http = Http(
            context,
            context.settings["base_url"],
            crm=title,
            authorize=self._authorization,
            renew=self._grant.renew,
            failure=_failure,
            budgets=budgets,
            on_response=self._follow_limits,
            secrets=self._grant.secrets,
            correlation_header="x-hubspot-correlation-id",
        )
        self.send, self.mask = self.http.send, self.http.mask
        self._account = Remembered(self._load_account, context)

    def path(self, area: str, *rest: str) -> tuple[str, ...]:
        """`area`: "objects", "properties", "pipelines", "owners" or "crm-object-schemas"."""
        if area == "crm-object-schemas":
            return (area, self._version, *rest)
        if self._version == "v3":
            # Links between records are in the version v4 of otherwise the same paths.
            return ("crm", "v4" if "associations" in rest else "v3", area, *rest)
        return ("crm", area, self._version, *rest)

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._grant.token()}"}

    def _exchange(self, credentials: Mapping[str, str]) -> Answer:
        path, form = ("oauth", self._version, "token"), refresh_form(credentials)
        return self.send("POST", *path, form=form, lane=_OAUTH, reads=True, anonymous=True)

    def _follow_limits(self, lane: str, answer: Answer) -> None:
        # The responses to searches have no such headers.
        limit = answer.headers.get("X-HubSpot-RateLimit-Max", "")
        window = answer.headers.get("X-HubSpot-RateLimit-Interval-Milliseconds", "")
        if lane == GENERAL and _COUNT.fullmatch(limit) and _COUNT.fullmatch(window):
            self._general.follow(int(limit), int(window) / 1000)

    def listed(self, method: str, *path: str, absent: bool = False, **options: Any) -> Answer:
        """Raises Unavailable if the list is incomplete; with `absent`, records may be missing."""
        try:
            answer = self.send(method, *path, reads=True, **options)
        except NotFound:
            raise Unavailable(
                "HubSpot has no such list; the connection's base_url or api_version may be wrong."
            ) from None
        body = answer.object()
        failed = objects_in(body.get("errors"))
        whole = answer.status == 200 and not failed
        if absent and all(_word(error, "category") == "OBJECT_NOT_FOUND" for error in failed):
            whole = True
        if not whole or body.get("status", "COMPLETE") != "COMPLETE":
            raise answer.broken("a whole list was expected")
        return answer

    def pages(self, path: Sequence[str], send: Callable[..., Answer]) -> Iterator[Answer]:
        params = {"limit": "500"}
        while True:
            answer = send("GET", *path, params=params)
            yield answer
            after = next_page(answer, after=params.get("after", ""))
            if not after:
                return
            params = {**params, "after": after}

    def batch_reads(
        self, kind: str, ids: Sequence[str], names: Iterable[str], *, by: str = ""
    ) -> Iterator[tuple[Answer, Mapping[str, Any]]]:
        """Read 100 records per request, but no missing ones; `by`: the unique property of `ids`."""
        body: dict[str, Any] = {"properties": list(names), "propertiesWithHistory": []}
        if by:
            body["idProperty"] = by
        path = self.path("objects", kind, "batch", "read")
        for start in range(0, len(ids), BATCH):
            body["inputs"] = [{"id": record_id} for record_id in ids[start : start + BATCH]]
            answer = self.listed("POST", *path, absent=True, body=body)
            for record in answer.items():
                yield answer, record

    def saved(
        self, kind: Kind, answer: Answer, record: Mapping[str, Any], outcome: Outcome
    ) -> Saved:
        record_id = answer.id(record)
        return Saved(record_id, outcome, self.page(kind, record_id, record))

    def page(self, kind: Kind, record_id: str, record: Mapping[str, Any]) -> str:
        if isinstance(record.get("url"), str) and record["url"]:
            return str(record["url"])
        if self._context.remaining() < _SPARE_S:
            return ""
        try:
            account = self._account.get()
        except Unavailable:
            return ""
        portal, domain = account.get("portalId"), account.get("uiDomain")
        page = f"https://{domain}/contacts/{portal}/record/{TYPE_IDS[kind]}/{record_id}"
        return page if portal and domain else ""

    def _load_account(self) -> Mapping[str, Any]:
        # The write succeeded, so a missing page address must not fail it or cause more calls.
        try:
            return self.send("GET", "account-info", self._version, "details").object()
        except AdapterError:
            return {}


def next_page(answer: Answer, *, after: str) -> str:
    """Return the cursor of the next page; "" for the last page, or if it is `after` once more."""
    cursor = text_of(value_at(answer.object(), "paging", "next", "after"))
    return cursor if cursor != after else ""


def _word(body: Mapping[str, Any], name: str) -> str:
    text = text_of(body.get(name))
    return text if re.fullmatch(r"[A-Z_]{1,60}", text) else ""


def _failure(answer: Answer) -> AdapterError | None:
    if 200 <= answer.status < 300:
        return None
    # Any field of HubSpot's error body may be missing.
    body = answer.body if isinstance(answer.body, dict) else {}
    error = _own_failure(answer, body) or usual_failure(answer)
    error.correlation_id = text_of(body.get("correlationId"))
    return error


def item_failure(answer: Answer, failed: Mapping[str, Any]) -> AdapterError:
    category = _word(failed, "category")
    status = {"CONFLICT": 409, "OBJECT_NOT_FOUND": 404, "VALIDATION_ERROR": 400}.get(category, 200)
    message = f"HubSpot could not write this one of a batch ({category or 'no word'})."
    error = _failure(replace(answer, status=status, body=failed)) or Uncertain(message)
    error.correlation_id = answer.correlation_id
    return error


def _own_failure(answer: Answer, body: Mapping[str, Any]) -> AdapterError | None:
    match answer.status:
        case 401:
            return Denied(f"HubSpot refuses the access token ({_word(body, 'category') or 401}).")
        case 403 if body:
            return _missing_scopes(body)
        case 404 if body:
            return NotFound("HubSpot has no such record")
        case 400 | 409 if body:
            return _refused(answer, body)
        case 414:
            return TooLong([], "HubSpot takes no address as long as this call's.")
        case 423:
            wait = max(answer.seconds() or 0.0, _LOCKED_S)
            return Throttled("HubSpot has locked the records for a bulk change.", retry_after=wait)
        case 429:
            return _throttled(answer, body)
        case 477:
            message = "HubSpot is moving this account between its data centres."
            return Unavailable(message, retry_after=answer.seconds())
    return None


def _throttled(answer: Answer, body: Mapping[str, Any]) -> Throttled:
    message = f"{text_of(body.get('policyName'))} {text_of(body.get('message'))}".upper()
    scope, usual = "burst", _BURST_S
    if "DAILY" in message:
        scope, usual = "daily", _DAILY_S
    elif "SECONDLY" in message and "TEN_SECONDLY" not in message:
        scope, usual = "search", _SEARCH_S
    wait = answer.seconds()
    return Throttled(
        f"HubSpot's limit of calls is reached ({_word(body, 'policyName') or scope}).",
        retry_after=usual if wait is None else wait,
        scope=scope,
    )


def _missing_scopes(body: Mapping[str, Any]) -> AdapterError | None:
    named = [
        text_of(value)
        for error in (body, *objects_in(body.get("errors")))
        for key, values in _context(error)
        if "scope" in key.lower()
        for value in values
    ]
    if not named and body.get("category") != "MISSING_SCOPES":
        return None
    scopes = f": it needs one of {', '.join(dict.fromkeys(named))}" if named else ""
    return MissingScopes(f"The access token lacks a right in HubSpot{scopes[:_SHOWN]}.")


def _refused(answer: Answer, body: Mapping[str, Any]) -> AdapterError | None:
    message, faults = text_of(body.get("message")), _faults(body)
    errors = (body, *objects_in(body.get("errors")))
    # Only the link from a deal or ticket to its contact refers to another object.
    if any(key == "INVALID_OBJECT_IDS" for error in errors for key, _ in _context(error)):
        return NotFound("HubSpot has no such contact")
    clashing = [name for name, (code, _) in faults.items() if "UNIQUE" in code.upper()]
    if answer.status == 409 or clashing:
        existing = _EXISTING_ID.search(message)
        existing_id = (existing[1] or existing[2]) if existing else ""
        name = next(iter([*clashing, *faults]), "email" if "contact" in message.lower() else "")
        what = f"this {name}" if name else "such a value"
        message = f"HubSpot has another record{f', {existing_id},' if existing_id else ''}"
        return Conflict(f"{message} with {what}", existing_id=existing_id, name=name)
    if not faults:
        return None
    return Rejected([Problem(name, reason[:_SHOWN]) for name, (_, reason) in faults.items()])


def _faults(body: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return (error code, reason) by property name: from `errors`, the message or the top level."""
    faults: dict[str, tuple[str, str]] = {}
    message = text_of(body.get("message"))
    for error in (*objects_in(body.get("errors")), *_listed_in(message), body):
        named = [text_of(v) for key, vs in _context(error) if "propert" in key.lower() for v in vs]
        if error is not body:
            named = named or [text_of(error.get("in") or error.get("name"))]
        code = text_of(error.get("code") or error.get("error") or error.get("subCategory"))
        reason = text_of(error.get("message")) or code or "HubSpot refuses it"
        for name in filter(None, named):
            faults.setdefault(name, (code, reason))
    return faults


def _context(error: Mapping[str, Any]) -> list[tuple[str, list[Any]]]:
    context = error.get("context")
    pairs = context.items() if isinstance(context, dict) else ()
    return [(key, values) for key, values in pairs if isinstance(values, list)]


def _listed_in(message: str) -> list[Mapping[str, Any]]:
    _, bracket, rest = message.partition("[")
    try:
        return objects_in(json.JSONDecoder().raw_decode(bracket + rest)[0]) if bracket else []
    except (ValueError, RecursionError):
        return []
