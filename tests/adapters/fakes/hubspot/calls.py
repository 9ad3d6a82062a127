"""A plain HTTP client of the fake HubSpot, and what its answers are taken apart with."""

from __future__ import annotations

from typing import Any

import requests

from adapters.fakes.hubspot import FakeHubSpot

OBJECTS = "/crm/objects/2026-09"


class Api:
    """Calls the fake with its token, as any program could."""

    def __init__(self, fake: FakeHubSpot) -> None:
        self.fake = fake
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {fake.token}"

    def __call__(self, method: str, path: str, **more: Any) -> requests.Response:
        path = path if path.startswith("/") else f"{OBJECTS}/{path}"
        return self.session.request(method, self.fake.url + path, **{"timeout": 30, **more})

    def get(self, path: str, **query: Any) -> requests.Response:
        return self("GET", path, params=query)

    def post(self, path: str, body: Any) -> requests.Response:
        return self("POST", path, json=body)

    def create(self, kind: str, links: Any = (), **properties: str) -> requests.Response:
        return self.post(kind, {"properties": properties, "associations": list(links)})

    def update(self, kind: str, id_: str, **properties: str) -> requests.Response:
        return self("PATCH", f"{kind}/{id_}", json={"properties": properties})

    def search(self, kind: str, *filters: dict[str, Any], **more: Any) -> requests.Response:
        groups = [{"filters": list(filters)}] if filters else []
        body = {"filterGroups": groups, "properties": [], "sorts": [], "limit": 100, "after": "0"}
        return self.post(f"{kind}/search", {**body, **more})

    def found(self, kind: str, name: str, operator: str, *values: str, **more: Any) -> list[str]:
        """The ids that a search with one filter finds."""
        one: dict[str, Any] = {"propertyName": name, "operator": operator, **more}
        if operator in ("IN", "NOT_IN"):
            one["values"] = list(values)
        elif values:
            one["value"] = values[0]
        answer = self.search(kind, one)
        assert answer.status_code == 200, answer.text
        return [each["id"] for each in answer.json()["results"]]


def link(id_: str, type_id: int) -> dict[str, Any]:
    """An association as a body holds it."""
    spec = {"associationCategory": "HUBSPOT_DEFINED", "associationTypeId": type_id}
    return {"to": {"id": id_}, "types": [spec]}


def codes(answer: requests.Response) -> list[tuple[str, str]]:
    """The codes of a refusal, each with its property, as `errors` has them."""
    return [
        (one["code"], one["context"]["propertyName"][0]) for one in answer.json().get("errors", [])
    ]


def refreshed(api: Api, path: str = "/oauth/2026-09/token", **form: str) -> requests.Response:
    """The answer to a refresh, by the credentials that the fake knows unless others are given."""
    usual = {
        "grant_type": "refresh_token",
        "client_id": "fake-client-id",
        "client_secret": "fake-client-secret",
        "refresh_token": "fake-refresh-token",
    }
    return requests.post(api.fake.url + path, data={**usual, **form}, timeout=30)
