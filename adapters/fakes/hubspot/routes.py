"""The URL paths of the fake HubSpot in all API versions, with the scopes that calls need.

A dated version follows the area in a path (/crm/objects/2026-09/contacts); v3 and v4 precede it
(/crm/v3/objects/contacts). Associations belong to v4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from adapters.fakes.answers import Answer
from adapters.fakes.hubspot import account, associations, batches, objects, pipelines, properties
from adapters.fakes.hubspot.answers import Refused
from adapters.fakes.hubspot.calls import Call

DATED = ("2026-09", "2026-03")
_AREAS_OF_V3 = ("objects", "properties", "pipelines", "owners")
_AREAS_OF_V4 = ("objects", "associations")

Endpoint = Callable[[Call], Answer]
_BATCH_OBJECTS = {
    "create": batches.batch_create,
    "read": batches.batch_read,
    "update": batches.batch_update,
    "upsert": batches.batch_upsert,
    "archive": batches.batch_archive,
}

# Area → path after the version → HTTP method → endpoint. {kind} is a kind of record.
_TABLE: dict[str, dict[str, dict[str, Endpoint]]] = {
    "objects": {
        "{kind}": {"GET": objects.list_records, "POST": objects.create_record},
        "{kind}/search": {"POST": objects.search_records},
        "{kind}/merge": {"POST": objects.merge_records},
        "{kind}/gdpr-delete": {"POST": objects.gdpr_delete},
        **{f"{{kind}}/batch/{name}": {"POST": handler} for name, handler in _BATCH_OBJECTS.items()},
        "{kind}/{id}": {
            "GET": objects.read_record,
            "PATCH": objects.update_record,
            "DELETE": objects.archive_record,
        },
    },
    "links": {
        "{kind}/{id}/associations/{to}": {"GET": associations.list_links},
        "{kind}/{id}/associations/default/{to}/{to_id}": {"PUT": associations.link_by_default},
        "{kind}/{id}/associations/{to}/{to_id}": {
            "PUT": associations.link_by_type,
            "DELETE": associations.unlink_records,
        },
    },
    "associations": {
        "{kind}/{to}/labels": {"GET": associations.labels},
        "{kind}/{to}/batch/read": {"POST": associations.batch_read},
        "{kind}/{to}/batch/create": {"POST": associations.batch_link},
        "{kind}/{to}/batch/archive": {"POST": associations.batch_unlink},
        "{kind}/{to}/batch/associate/default": {"POST": associations.batch_link_by_default},
    },
    "properties": {
        "{kind}": {"GET": properties.list_definitions, "POST": properties.create_definition},
        "{kind}/batch/create": {"POST": properties.batch_create},
        "{kind}/batch/read": {"POST": properties.batch_read},
        "{kind}/batch/archive": {"POST": properties.batch_archive},
        "{kind}/groups": {"GET": properties.list_groups, "POST": properties.create_group},
        "{kind}/{name}": {
            "GET": properties.read_definition,
            "PATCH": properties.update_definition,
            "DELETE": properties.archive_definition,
        },
    },
    "pipelines": {
        "{kind}": {"GET": pipelines.list_pipelines, "POST": pipelines.create_pipeline},
        "{kind}/{pipeline}": {
            "GET": pipelines.read_pipeline,
            "PATCH": pipelines.update_pipeline,
            "PUT": pipelines.replace_pipeline,
            "DELETE": pipelines.delete_pipeline,
        },
        "{kind}/{pipeline}/stages": {
            "GET": pipelines.list_stages,
            "POST": pipelines.create_stage,
        },
        "{kind}/{pipeline}/stages/{stage}": {
            "GET": pipelines.read_stage,
            "PATCH": pipelines.update_stage,
            "DELETE": pipelines.delete_stage,
        },
    },
    "crm-object-schemas": {"schemas/{kind}": {"GET": properties.read_schema}},
    "owners": {"": {"GET": account.list_owners}, "{id}": {"GET": account.read_owner}},
    "account-info": {
        "details": {"GET": account.details},
        "api-usage/daily/private-apps": {"GET": account.usage},
    },
}
# Fixed words come before placeholders, so that `search` is not taken for a record id.
_PATTERNS = {
    area: sorted(
        ((tuple(filter(None, pattern.split("/"))), methods) for pattern, methods in table.items()),
        key=lambda item: tuple(word.startswith("{") for word in item[0]),
    )
    for area, table in _TABLE.items()
}


@dataclass(frozen=True, slots=True)
class Route:
    """The endpoint of a URL path.

    `area` is the part of the API, such as objects. `methods` maps HTTP methods to the functions
    that execute a call. `at` contains the parameters in the path, by name.
    """

    area: str
    version: str
    methods: dict[str, Endpoint]
    at: dict[str, str]

    @property
    def is_search(self) -> bool:
        """Whether calls count under the rate limit of searches, not under the general limit."""
        return self.methods.get("POST") is objects.search_records

    def endpoint(self, method: str) -> Endpoint:
        """Return the function that executes a call with this HTTP method.

        Raises Refused with status 405 if the path does not support the method.
        """
        if handler := self.methods.get(method):
            return handler
        allowed = ", ".join(sorted(self.methods))
        raise Refused(405, "Method Not Allowed", category=None, headers={"Allow": allowed})

    def scopes(self, kind: str, method: str) -> frozenset[str]:
        """Return scopes (rights of a token); a call needs at least one of them.

        The scopes follow HubSpot's list of scopes. An empty set means that the call needs no scope.
        """
        if self.area == "owners":
            return frozenset({"crm.objects.owners.read"})
        if not kind:
            return frozenset()
        if kind == "tickets":
            return frozenset({"tickets"})
        reads = self._reads(method)
        if self.area == "crm-object-schemas":
            return frozenset({f"crm.schemas.{kind}.read"})
        if self.area == "properties":
            schemas = f"crm.schemas.{kind}.{'read' if reads else 'write'}"
            return frozenset({schemas, *_objects(kind)} if reads else {schemas})
        return frozenset(_objects(kind) if reads else {f"crm.objects.{kind}.write"})

    def sensitive_scopes(self, kind: str, method: str, level: str) -> frozenset[str]:
        """Return scopes; a call that names sensitive properties needs at least one of them.

        `level` is the sensitivity level of the named properties.
        """
        if kind == "tickets":
            return frozenset({f"tickets.{level}.v2"})
        how = "read" if self._reads(method) else "write"
        return frozenset({f"crm.objects.{kind}.{level}.{how}.v2"})

    def _reads(self, method: str) -> bool:
        return method == "GET" or self.is_search or self.at.get("_last") == "read"


def _objects(kind: str) -> set[str]:
    return {f"crm.objects.{kind}.read", f"crm.objects.{kind}.write"}


@lru_cache(maxsize=4_096)
def find(path: str) -> Route | None:
    """Return the endpoint of a URL path, or None if HubSpot has no such path."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    placed = _placed(parts)
    if placed is None:
        return None
    area, version, rest = placed
    areas = (area, "links") if area == "objects" else (area,)
    if version == "v4":
        areas = ("links",) if area == "objects" else areas
    for area in areas:
        for pattern, methods in _PATTERNS[area]:
            if (at := _fitted(pattern, rest)) is not None:
                return Route(area, version, methods, {**at, "_last": rest[-1] if rest else ""})
    return None


def _placed(parts: list[str]) -> tuple[str, str, list[str]] | None:
    """Split a URL path into its area (such as objects), API version and remaining segments.

    `parts` are the segments of the whole path. Returns None if HubSpot has no such path.
    """
    match parts:
        case ["crm", "v3", area, *rest] if area in _AREAS_OF_V3:
            return area, "v3", rest
        case ["crm", "v4", area, *rest] if area in _AREAS_OF_V4:
            return area, "v4", rest
        case ["crm", "associations", "v4", *rest]:
            return "associations", "v4", rest
        case ["crm", area, version, *rest] if version in DATED and area in _TABLE:
            return area, version, rest
        case ["account-info" | "crm-object-schemas" as area, version, *rest] if version in (
            *DATED,
            "v3",
        ):
            return area, version, rest
    return None


def _fitted(pattern: tuple[str, ...], rest: list[str]) -> dict[str, str] | None:
    if len(pattern) != len(rest):
        return None
    at = {}
    for word, part in zip(pattern, rest, strict=True):
        if word.startswith("{"):
            at[word[1:-1]] = part
        elif word != part:
            return None
    return at
