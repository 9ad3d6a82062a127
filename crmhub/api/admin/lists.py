"""Lists of the admin API: their queries, pages and cursors.

A cursor contains the filters of its list, so that a client need not repeat them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, TypeVar

import flask
import marshmallow as ma
import orjson

from crmhub import durations, periods
from crmhub.accounts.accounts import Account
from crmhub.api.http.answers import JsonAnswer, page_frame
from crmhub.api.http.authentication import hub
from crmhub.api.http.field_types import Between, Strict, Text
from crmhub.errors import BadRequest, NotFound
from crmhub.records.search.cursor import sealed, unsealed
from crmhub.secrets import derive

T = TypeVar("T")
_LONGEST_PERIOD = 80
_DAY = (
    "20[0-9]{2}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
# The 29th of February, and times, are taken as well.
_PERIOD = rf"^(?:today|yesterday|{durations.PATTERN}|{_DAY}(?:\.\.(?:{_DAY})?)?|\.\.{_DAY})$"
# The filters that are periods.
_PERIODS = ("when", "ended")

_DEFAULT_LIMIT = 20
_CURSOR = "`cursor.next` of the page before; it brings the filters along."


class Filled(Text):
    """Field for a text that is not blank, since a blank filter would match too much."""

    def __init__(self, description: str, longest: int, **kwargs: Any) -> None:
        shown = {"description": description, "maxLength": longest, "pattern": r"\S"}
        super().__init__(metadata=shown, **kwargs)
        self._longest = longest

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not text.strip():
            raise ma.ValidationError("is blank; leave it out, or say something")
        if len(text) > self._longest:
            raise ma.ValidationError(f"is longer than {self._longest} characters")
        return text


class Age(Text):
    """Field for a duration such as `7d`, loaded as milliseconds."""

    def __init__(self, description: str, **kwargs: Any) -> None:
        shown = {"pattern": f"^{durations.PATTERN}$", "description": description}
        super().__init__(metadata=shown, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        milliseconds = durations.milliseconds(text)
        if milliseconds is None:
            raise ma.ValidationError(f"must be {durations.FORM}")
        return milliseconds


class PageQuery(Strict):
    limit = Between(
        1,
        100,
        in_query=True,
        metadata={
            "description": f"Items per page; {_DEFAULT_LIMIT} unless the cursor says otherwise."
        },
    )
    cursor = Text(metadata={"description": _CURSOR})


class Period(Text):
    """Field for a period such as `yesterday`, loaded as its begin and end in ms since 1970."""

    def __init__(self, description: str, **kwargs: Any) -> None:
        shown = {"pattern": _PERIOD, "description": description}
        super().__init__(metadata=shown, **kwargs)

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        days = text.split("..")
        try:
            if len(text) > _LONGEST_PERIOD:
                raise ValueError(text)
            # Two days mean the same in both orders; a pattern could not ask for one of them.
            return periods.parse("..".join(sorted(days) if all(days) else days), UTC)
        except ValueError:
            raise ma.ValidationError(f"must be {periods.FORM}") from None


@dataclass(frozen=True, slots=True)
class Listing:
    """A requested page of the list `what`, with at most `limit` items.

    `after` is the key of the last item of the previous page, None for the first page.
    """

    what: str
    filters: dict[str, Any]
    limit: int
    after: Any

    @classmethod
    def from_query(cls, what: str, query: dict[str, Any]) -> Listing:
        """Return the page that a query requests; raises BadRequest for another list's cursor."""
        given: dict[str, Any] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in query.items()
        }
        cursor, limit = given.pop("cursor", ""), given.pop("limit", None)
        if not cursor:
            return cls(what, given, limit or _DEFAULT_LIMIT, None)
        filters, before_limit, after = unsealed(cursor, _signing_key(what))
        if given and _without_periods(given) != _without_periods(filters):
            raise BadRequest("cursor: it belongs to a list with other filters; start without it.")
        return cls(what, filters, limit or before_limit, after)

    def page(
        self,
        found: Sequence[T],
        shown: Callable[[T], dict[str, Any]],
        key: Callable[[T], Any],
    ) -> flask.Response:
        """Return the response with this page's items.

        `found` has one item more than `limit` if another page follows. `shown` returns the JSON of
        an item, `key` what the cursor of the next page is made from.
        """
        items, following = found[: self.limit], ""
        if len(found) > self.limit:
            place = [self.filters, self.limit, key(items[-1])]
            following = sealed(place, _signing_key(self.what))
        return JsonAnswer(page_frame(orjson.dumps([shown(item) for item in items]), following))


def all_of(items: Sequence[dict[str, Any]]) -> flask.Response:
    return JsonAnswer(page_frame(orjson.dumps(items), ""))


def account_named(client_id: str) -> Account:
    """Return the account with the client id in a filter; raises NotFound."""
    account = hub().directory.by_client_id(client_id)
    if account is None:
        raise NotFound(f"account: there is none with the clientId {client_id!r}.")
    return account


def _without_periods(filters: dict[str, Any]) -> dict[str, Any]:
    """Leave out what a period is: 7d begins later with each request."""
    return {name: name if name in _PERIODS else value for name, value in filters.items()}


def _signing_key(what: str) -> bytes:
    # A key for each list, so that no list accepts the cursor of another one.
    return derive(hub().settings.secret_key, f"cursor of {what}")
