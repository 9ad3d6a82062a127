"""HubSpot's API: the paths of its versions, credentials, rate limits, and lists of records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from adapters.hubspot.failures import failure, word
from crmhub.adapter import AdapterError, Context, Kind, NotFound, Outcome, Saved, Unavailable
from crmhub.adapter.answers import objects_in, text_of, value_at
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


class Api:
    """Calls HubSpot's API for one connection, in the API version of the connection's settings."""

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
            failure=failure,
            budgets=budgets,
            on_response=self._follow_limits,
            secrets=self._grant.secrets,
            correlation_header="x-hubspot-correlation-id",
        )
        self.send, self.mask = self.http.send, self.http.mask
        self._account = Remembered(self._load_account, context)

    def path(self, area: str, *rest: str) -> tuple[str, ...]:
        """Return the path of an endpoint, as segments; `rest` are its last ones.

        `area` is "objects", "properties", "pipelines", "owners" or "crm-object-schemas".
        """
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

    # Lists.

    def listed(self, method: str, *path: str, absent: bool = False, **options: Any) -> Answer:
        """Send a read request whose response is a list, and return the response.

        Raises Unavailable if the list is incomplete. If `absent` is True, the list may lack records
        that do not exist. `options` are those of `send`.
        """
        try:
            answer = self.send(method, *path, reads=True, **options)
        except NotFound:
            raise Unavailable(
                "HubSpot has no such list; the connection's base_url or api_version may be wrong."
            ) from None
        body = answer.object()
        failed = objects_in(body.get("errors"))
        whole = answer.status == 200 and not failed
        if absent and all(word(error, "category") == "OBJECT_NOT_FOUND" for error in failed):
            whole = True
        if not whole or body.get("status", "COMPLETE") != "COMPLETE":
            raise answer.broken("a whole list was expected")
        return answer

    def pages(self, path: Sequence[str], send: Callable[..., Answer]) -> Iterator[Answer]:
        """Request all pages of a list, one after the other, by `send`; yield the responses."""
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
        """Read records by their ids, 100 per request; yield each with the response that has it.

        `names` are the properties to read. If `by` names a unique property, `ids` contains values
        of this property instead of ids. Records that do not exist are left out.
        """
        body: dict[str, Any] = {"properties": list(names), "propertiesWithHistory": []}
        if by:
            body["idProperty"] = by
        path = self.path("objects", kind, "batch", "read")
        for start in range(0, len(ids), BATCH):
            body["inputs"] = [{"id": record_id} for record_id in ids[start : start + BATCH]]
            answer = self.listed("POST", *path, absent=True, body=body)
            for record in answer.items():
                yield answer, record

    # Record pages in HubSpot.

    def saved(
        self, kind: Kind, answer: Answer, record: Mapping[str, Any], outcome: Outcome
    ) -> Saved:
        """Return the result of a write of `record`, a part of HubSpot's response `answer`."""
        record_id = answer.id(record)
        return Saved(record_id, outcome, self.page(kind, record_id, record))

    def page(self, kind: Kind, record_id: str, record: Mapping[str, Any]) -> str:
        """Return the URL of a record's page in HubSpot's web app, or "" if it cannot be found."""
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
