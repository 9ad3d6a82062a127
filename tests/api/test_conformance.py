"""What is answered is what the OpenAPI documents say: requests made from them, right and wrong.

The examples are the same on every run, so that a failure can be run again. Making them up takes
four times as long as answering them, so each is sent to the application on every database, unless
the first refuses to read it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import flask
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    positive_data_acceptance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from crmhub.api.http.document import PATHS
from crmhub.app import create_app
from tests import databases
from tests.admin import open_admin
from tests.clients import open_client
from tests.databases import new_settings
from tests.depth import ALL
from tests.own_databases import KINDS

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
# Refusals of what was sent, as it is read: no record has been looked at, so one database will do.
BEFORE_RECORDS = (400, 413, 415)
EXAMPLES = {
    GenerationMode.POSITIVE: 8 if ALL else 4,
    GenerationMode.NEGATIVE: 6 if ALL else 3,
}
# The kinds beside contacts are made by the same function.
EXAMPLES_OF_KINDS_ALIKE = 2 if ALL else 1
# Tests that share the operations, so that they run side by side.
PARTS = 4

CONFIG = SchemathesisConfig.from_dict(
    {
        # NUL is refused wherever it stands, which no schema can say.
        # Made-up credentials would be throttled as guesses before anything is tested.
        "generation": {"allow-x00": False, "with-security-parameters": False},
        "checks": {
            # What fits the document may still make no sense for the account, but it can be read.
            "positive_data_acceptance": {
                "expected-statuses": [200, 201, 204, 207, 402, 404, 409, 413, 422]
            },
            "negative_data_rejection": {"expected-statuses": [400, 401, 404, 409, 413, 415, 422]},
        },
    }
)


@pytest.fixture(scope="module")
def apps(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[flask.Flask]]:
    """The application on each database that can be reached."""
    with ExitStack() as stack:
        made = []
        for database in KINDS:
            if databases.left_out(database):
                continue
            app = create_app(
                new_settings(
                    request.getfixturevalue(f"{database}_url"), tmp_path_factory.mktemp("root")
                )
            )
            stack.callback(app.extensions["crmhub"].close)
            made.append(app)
        yield made


@pytest.fixture(scope="module")
def operations(apps: list[flask.Flask]) -> list[Any]:
    """What the documents describe."""
    described = []
    for path in PATHS.values():
        schema = schemathesis.openapi.from_wsgi(path, apps[0], config=CONFIG)
        for found in schema.get_all_operations():
            assert isinstance(found, Ok), found
            described.append(found.ok())
    return described


def of_helper(operation: Any) -> bool:
    return operation.path.startswith(("/chatbot/", "/crm-api-interface/"))


def examples(operation: Any, mode: GenerationMode) -> settings:
    alike = operation.path.startswith(
        (
            "/{client_id}/api/v1/deals",
            "/{client_id}/api/v1/companies",
            "/{client_id}/api/v1/tickets",
        )
    )
    return settings(
        max_examples=EXAMPLES_OF_KINDS_ALIKE if alike else EXAMPLES[mode],
        derandomize=True,
        database=None,
        deadline=None,
        # What failed is told as it was sent; looking for a smaller one would take minutes.
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


# Operations whose requests may fit the document and still be no requests: the operator of a
# filter decides its value, idProperty what an id is, the type of a property its options; no
# record may stand twice in a batch; a probability has at most 15 digits; what is printable; and
# that a bulk retry or discard must choose something.
SAYS_LESS = (
    "/search",
    "/batch/read",
    "/batch/update",
    "/batch/upsert",
    "/properties/{resource}",
    "/properties/{resource}/{name}",
    "/pipelines/{resource}",
    "/pipelines/{resource}/{pipeline_id}",
    "/enrolments/{contact_id}",
    "/admin/v1/actions/retry",
    "/admin/v1/actions/discard",
)


@dataclass(frozen=True, slots=True)
class Callee:
    """An application that cases are sent to, and how they are about an account there."""

    app: flask.Flask
    headers: dict[str, str]
    parts: dict[str, str]
    """The parts of the path that lead to the account."""
    id: int
    """Of a record of the operation's kind, or 0."""


def callee(app: flask.Flask, operation: Any) -> Callee:
    """Open an account for this operation alone: another may have required what this one lacks."""
    client = open_client(app)
    parts = {
        "client_id": client.account.client_id,
        "generated_id": client.ids.generated_id,
        "portal_id": client.ids.portal_id,
    }
    kind = operation.path.removeprefix("/{client_id}/api/v1/").partition("/")[0]
    return Callee(
        app,
        headers={"service-apikey": client.key, **open_admin(app).headers},
        parts={name: value for name, value in parts.items() if f"{{{name}}}" in operation.path},
        id=client.make(kind) if "{id}" in operation.path else 0,
    )


def may_be_wrong(operation: Any, parts: Mapping[str, str]) -> bool:
    """Return whether it takes anything beside `parts` and, in its path, texts of any kind."""
    schemas = [
        each.definition["schema"] for each in operation.path_parameters if each.name not in parts
    ]
    return bool([*operation.query, *operation.headers, *operation.body]) or any(
        schema.get("type") != "string" or schema.keys() - {"type", "minLength"}
        for schema in schemas
    )


def check(apps: list[flask.Flask], operation: Any, mode: GenerationMode, checks: list[Any]) -> None:
    """Send what fits (or does not fit) the document, and hold the answers against it."""
    callees = [callee(app, operation) for app in apps]

    @examples(operation, mode)
    @given(
        case=operation.as_strategy(generation_mode=mode, path_parameters=callees[0].parts),
        found=st.booleans(),
    )
    def run(case: Any, found: bool) -> None:
        # A query string can hold no array of one empty text, and no object that is no text.
        asked = [str(value) for value in (case.query or {}).values()]
        vague = any(text[:1] in ("", "{") for text in asked) or has_scalar_values(case.body)
        expected = [] if vague else checks
        # A made-up one is wrong, and nothing else is looked at.
        if case.headers:
            case.headers.pop("X-Webhook-Secret", None)
        for each in callees:
            if each.parts:
                case.path_parameters.update(each.parts)
            if mode is GenerationMode.POSITIVE:
                fit(case, each.id if found else 0)
            answer = case.call(app=each.app, headers=each.headers)
            try:
                case.validate_response(answer, checks=[*CHECKS, *expected])
            except FailureGroup as failures:
                pytest.fail(told(case, answer, [*failures.exceptions]), pytrace=False)
            if answer.status_code in BEFORE_RECORDS:
                return

    if mode is GenerationMode.POSITIVE or may_be_wrong(operation, callees[0].parts):
        run()


def has_scalar_values(body: Any) -> bool:
    """Return whether a body has a number, a boolean or null where values are texts.

    The hub reads them as texts, but the document says string, so that clients have one type.
    """
    if isinstance(body, list):
        return any(map(has_scalar_values, body))
    if not isinstance(body, dict):
        return False
    values = [body[name] for name in ("id", "value") if name in body]
    for name in ("properties", "props", "values"):
        inner = body.get(name)
        values += inner.values() if isinstance(inner, dict) else []
        values += inner if isinstance(inner, list) else []
    scalars = (int, float, type(None))
    return any(isinstance(each, scalars) for each in values) or has_scalar_values([*body.values()])


def fit(case: Any, id: int) -> None:
    """Make a case fit what no schema can say; with `id`, let it be about that record."""
    case.query.pop("idProperty", None)
    given = case.path_parameters.get("id")
    if given is not None and (id or not str(given).isdigit()):
        case.path_parameters["id"] = str(id)
    # A key stands for one request: the same one with the next case is a fault of the caller's.
    if case.headers:
        case.headers.pop("Idempotency-Key", None)
    # Nobody can make up a cursor.
    case.query.pop("cursor", None)
    if isinstance(case.body, dict):
        case.body.pop("cursor", None)
        case.body = whole(case.body)


def whole(value: Any) -> Any:
    """Return the JSON value with 1 for 1.0, which schemas take for an integer and the hub not."""
    if isinstance(value, dict):
        return {name: whole(each) for name, each in value.items()}
    if isinstance(value, list):
        return [whole(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def told(case: Any, answer: Any, failures: list[Any]) -> str:
    """Say what was sent, what was answered and what was wrong with that."""
    sent = f"{case.method} {case.formatted_path} {case.query} {case.headers} {case.body!r}"
    wrong = "; ".join(f"{each.title}: {each.message}" for each in failures)
    return f"{wrong}\nsent: {sent[:2000]}\nanswered: {answer.status_code} {answer.text[:500]}"


@pytest.mark.parametrize("first", range(PARTS))
def test_a_request_that_fits_is_answered_as_documented(
    apps: list[flask.Flask], operations: list[Any], subtests: pytest.Subtests, first: int
) -> None:
    for operation in operations[first::PARTS]:
        checks = [] if operation.path.endswith(SAYS_LESS) else [positive_data_acceptance]
        with subtests.test(operation.label):
            check(apps, operation, GenerationMode.POSITIVE, checks)


@pytest.mark.parametrize("first", range(PARTS))
def test_a_request_that_does_not_fit_is_refused_as_documented(
    apps: list[flask.Flask], operations: list[Any], subtests: pytest.Subtests, first: int
) -> None:
    for operation in operations[first::PARTS]:
        # Helpers pass over what they do not know and take what can only mean one thing.
        checks = [] if of_helper(operation) else [negative_data_rejection]
        with subtests.test(operation.label):
            check(apps, operation, GenerationMode.NEGATIVE, checks)
