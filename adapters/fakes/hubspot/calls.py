"""An API call as the endpoints of the fake HubSpot receive it: path, query and body."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from adapters.fakes.hubspot.answers import Refused
from adapters.fakes.hubspot.portal import Portal
from adapters.fakes.hubspot.shapes import Check


@dataclass(slots=True)
class Call:
    """An API call whose path belongs to an endpoint of HubSpot.

    `kind` is the kind of record in the path, or "" if the path has none. `at` contains all
    parameters in the path, by name. `search_lag` is the lag of searches in seconds.
    """

    portal: Portal
    path: str
    version: str
    query: Mapping[str, list[str]]
    body: bytes
    content_type: str
    search_lag: float = 0.0
    kind: str = ""
    at: dict[str, str] = field(default_factory=dict)

    def json(self, check: Check) -> Any:
        """Parse the request body as JSON; return it as validated by the function `check`.

        Raises Refused with status 415 if the content type is not JSON, and 400 if the body is
        invalid.
        """
        if self.content_type.partition(";")[0].strip().lower() != "application/json":
            raise Refused(415, "Unsupported Media Type", category=None)
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError as exc:
            raise Refused(400, f"Invalid input JSON on line {exc.lineno}: {exc.msg}") from None
        return check(value, "")

    def given(self, name: str) -> str | None:
        """Return the value of a query parameter; return None if it is missing.

        If the parameter is repeated, return its last value.
        """
        return self.query[name][-1] if name in self.query else None

    def names(self, name: str) -> list[str] | None:
        """Return the items of a query parameter that is comma-separated or repeated.

        Returns None if the parameter is missing.
        """
        if name not in self.query:
            return None
        values = ",".join(self.query[name]).split(",")
        return [value.strip() for value in values if value.strip()]

    def sensitivities(self) -> set[str]:
        """Return the sensitivity levels of all sensitive properties that the call names.

        The names are taken from the query and from the body.
        """
        try:
            body = orjson.loads(self.body or b"{}")
        except orjson.JSONDecodeError:
            body = {}
        named = {*(self.names("properties") or ()), *_named(body)}
        definitions = self.portal.definitions.get(self.kind, {})
        return {definitions[name]["dataSensitivity"] for name in named if name in definitions} - {
            "non_sensitive"
        }

    def flag(self, name: str) -> bool:
        """Return the value of a boolean query parameter; False if it is missing.

        Raises Refused with status 400 for a value other than true and false.
        """
        value = self.given(name) or "false"
        if value not in ("true", "false"):
            raise Refused(400, f"Unable to parse value for query parameter {name}: {value}")
        return value == "true"

    def cursor(self) -> int:
        """Return the query parameter `after`, the cursor of the requested page, as an integer.

        Return 0 if it is missing, which requests the first page. Raises Refused with status 400 for
        an invalid cursor.
        """
        value = self.given("after") or "0"
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise Refused(400, f"after must be a cursor of this list, and not {value[:40]}")
        return int(value)

    def integer(self, name: str, default: int, *, most: int) -> int:
        """Return the value of an integer query parameter; `default` if it is missing.

        Raises Refused with status 400 if the value is not from 1 to `most`.
        """
        value = self.given(name) or str(default)
        short = value.isascii() and value.isdigit() and len(value) < 10
        if not (short and 1 <= int(value) <= most):
            raise Refused(400, f"{name} must be an integer from 1 to {most}, and not {value[:40]}")
        return int(value)


def _named(body: Any) -> Iterator[str]:
    """Yield the property names in a request body, also those in the items of a batch."""
    if not isinstance(body, dict):
        return
    for given in (body, *(item for item in body.get("inputs") or () if isinstance(item, dict))):
        names = given.get("properties")
        yield from (item for item in names or () if isinstance(item, str))
