"""Whatever is sent to whichever endpoint, the answer is the right refusal in the one shape.

The endpoints come from the url map and their fields from the OpenAPI document: a new endpoint is
tested here without being named.
"""

from __future__ import annotations

import gzip
import io
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import flask
import pytest
from werkzeug.test import TestResponse

from crmhub.bounds import MAX_PROPERTIES
from tests.admin import Admin, open_admin
from tests.api.endpoints import METHODS, Endpoint, endpoints, example, fields_of, replaced, types_of
from tests.api.refusals import assert_no_faults, faults, header_faults, refused
from tests.clients import Client, open_client
from tests.depth import KINDS

MIB = 1024 * 1024
# One function makes their routes and those of contacts.
KINDS_ALIKE = ("deals", "companies", "tickets")


class Wire:
    """Sends anything at all with the key of an account and an admin token."""

    def __init__(self, app: flask.Flask, client: Client, admin: Admin) -> None:
        self._http = app.test_client()
        self._sent = 0
        self.client = client
        self.admin = admin
        left_out = tuple(f"/<client_id>/api/v1/{kind}" for kind in {*KINDS_ALIKE} - {*KINDS})
        self.endpoints = [each for each in endpoints(app) if not each.rule.startswith(left_out)]

    def send(
        self, endpoint: Endpoint, *, path: str | None = None, method: str = "", **options: Any
    ) -> TestResponse:
        mine = {"service-apikey": self.client.key}
        if not endpoint.of_agents:
            # There the header would stand for an API key.
            mine |= self.admin.headers
        headers = {**mine, **options.pop("headers", {})}
        self._sent += 1
        # Each from an address of its own: helpers shut out who misses too often.
        address = f"10.{self._sent >> 16 & 255}.{self._sent >> 8 & 255}.{self._sent & 255}"
        return self._http.open(
            path or endpoint.path(self.client),
            method=method or endpoint.method,
            headers=headers,
            environ_base={"REMOTE_ADDR": address},
            buffered=True,
            **options,
        )

    def post_raw(
        self, endpoint: Endpoint, body: bytes, content_type: str = "application/json"
    ) -> TestResponse:
        return self.send(endpoint, data=body, content_type=content_type)

    def raw_query(self, endpoint: Endpoint, query: str) -> TestResponse:
        """Send a query string as it is, one byte for each of its characters."""
        return self.send(endpoint, environ_overrides={"QUERY_STRING": query})

    @property
    def with_body(self) -> list[Endpoint]:
        return [each for each in self.endpoints if each.body_schema is not None]

    @property
    def strict_with_body(self) -> list[Endpoint]:
        """Those that take what they know and nothing else."""
        return [each for each in self.with_body if not each.of_helper]

    @property
    def helpers(self) -> list[Endpoint]:
        return [each for each in self.endpoints if each.of_helper]

    @property
    def with_query(self) -> list[Endpoint]:
        return [each for each in self.endpoints if each.query_parameters]


@pytest.fixture(scope="module")
def wire(app: flask.Flask) -> Wire:
    return Wire(app, open_client(app), open_admin(app))


def all_refused(
    at: Iterable[Endpoint], send: Callable[[Endpoint], TestResponse], *statuses: int
) -> None:
    """Assert that each endpoint answers with a refusal of one of these statuses."""
    assert_no_faults((each, faults(send(each), *statuses)) for each in at)


# --- bodies that cannot be read --------------------------------------------------------------

UNREADABLE = {
    "nothing": b"",
    "blanks": b" \r\n\t",
    "not JSON": b"{'a': 1}",
    "cut off": b'{"a": [1, 2',
    "two values": b"{} {}",
    "a comment": b"{} // yes",
    "a trailing comma": b'{"a": 1,}',
    "a raw line break in a string": b'{"a": "\n"}',
    "a byte order mark": b"\xef\xbb\xbf{}",
    "not UTF-8": b'{"a": "\xff\xfe"}',
    "an overlong UTF-8 form": b'{"a": "\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"a": "\xed\xa0\x80"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "gzip": b"\x1f\x8b\x08\x00\x00\x00\x00\x00",
    "NaN": b'{"a": NaN}',
    "Infinity": b'{"a": -Infinity}',
    "a key twice": b'{"a": 1, "a": 1}',
    "a key twice, written differently": b'{"a": 1, "\\u0061": 1}',
    "a key twice, deep inside": b'{"a": [{"b": {"c": 1, "c": 2}}]}',
    "NUL in a string": b'{"a": "x\\u0000"}',
    "NUL in a key": b'{"a\\u0000": 1}',
    "a lone surrogate in a string": b'{"a": "\\ud800"}',
    "a lone surrogate in a key": b'{"\\udfff": 1}',
    "two surrogates in the wrong order": b'{"a": "\\udc00\\ud800"}',
    "5,000 arrays": b'{"a": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    "5,000 objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "500,000 arrays, none closed": b"[" * 500_000,
    "21 levels": b'{"a": ' + b"[" * 20 + b"]" * 20 + b"}",
    "a number of 5,000 digits": b'{"a": 1' + b"0" * 5000 + b"}",
    "an exponent beyond everything": b'{"a": 1e99999999999999999999}',
    "a large exponent": b'{"a": -1e1000001}',
    "a large negative exponent": b'{"a": 1e-1000001}',
    "an array": b"[]",
    "a string": b'"x"',
    "a number": b"1",
    "true": b"true",
    "null": b"null",
}


@pytest.mark.databases("sqlite")
def test_a_body_that_cannot_be_read_is_400(wire: Wire) -> None:
    for body in UNREADABLE.values():
        # Builders are known to send a byte order mark: the helpers pass over it.
        among = wire.strict_with_body if body.startswith(b"\xef\xbb\xbf") else wire.with_body
        all_refused(among, lambda each, body=body: wire.post_raw(each, body), 400)


@pytest.mark.databases("sqlite")
def test_a_compressed_body_is_415(wire: Wire) -> None:
    zipped = gzip.compress(b'{"properties": {"firstname": "Ada"}}')
    for encoding in ("gzip", "identity,br", "no such"):
        headers = {"Content-Type": "application/json", "Content-Encoding": encoding}
        sent = {"data": zipped, "headers": headers}
        all_refused(wire.endpoints, lambda each, sent=sent: wire.send(each, **sent), 415)


@pytest.mark.databases("sqlite")
def test_a_compressed_body_is_told_to_come_uncompressed(wire: Wire) -> None:
    headers = {"Content-Encoding": " Identity "}
    assert wire.client.post("/contacts", {}, headers=headers).status_code == 400
    answer = wire.client.post("/contacts", {}, headers={"Content-Encoding": "gzip"})
    assert "Content-Encoding: gzip is not taken; send the body uncompressed" in refused(answer, 415)


@pytest.mark.databases("sqlite")
def test_a_request_that_names_no_host_or_several_is_400(wire: Wire) -> None:
    for host in ["", "a.example,b.example", "a b", "a/b", "user@a", "[::", "\xff"]:
        all_refused(
            wire.endpoints, lambda each, host=host: wire.send(each, headers={"Host": host}), 400
        )


@pytest.mark.databases("sqlite")
def test_a_host_is_a_name_or_an_address(wire: Wire) -> None:
    for host in ["my_hub:8080", "10.0.0.1", "[::1]:8080", "hub.example.:443"]:
        assert wire.client.get("/contacts", headers={"Host": host}).status_code == 200


@pytest.mark.databases("sqlite")
def test_an_old_client_names_no_host(wire: Wire) -> None:
    for version, status in (("HTTP/1.0", 200), ("HTTP/1", 200), ("HTTP/1.1", 400)):
        environ = {"SERVER_PROTOCOL": version, "HTTP_HOST": ""}
        assert wire.client.get("/contacts", environ_overrides=environ).status_code == status, (
            version
        )


@pytest.mark.databases("sqlite")
def test_401_comes_before_what_is_wrong_with_the_request(client: Client) -> None:
    for wrong in ({"Host": ""}, {"Content-Encoding": "gzip"}):
        answer = client.post("/contacts", {}, headers={"service-apikey": "wrong", **wrong})
        refused(answer, 401)


@pytest.mark.databases("sqlite")
def test_twenty_levels_are_read(wire: Wire) -> None:
    body = b'{"a": ' + b"[" * 19 + b"]" * 19 + b"}"
    for each in wire.strict_with_body:
        assert "a: is not known here" in refused(wire.post_raw(each, body), 400)


@pytest.mark.databases("sqlite")
def test_a_body_that_does_not_say_it_is_json_is_415(wire: Wire) -> None:
    for content_type in [
        "",
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonx",
        "é",
        "a" * 10_000,
    ]:
        all_refused(
            wire.strict_with_body,
            lambda each, said=content_type: wire.post_raw(each, b"{}", said),
            415,
        )


@pytest.mark.databases("sqlite")
def test_a_body_is_read_under_any_content_type_that_is_json(wire: Wire) -> None:
    for content_type in [
        "application/json; charset=utf-8",
        "Application/JSON",
        "application/vnd.hub+json",
    ]:
        all_refused(
            wire.strict_with_body,
            lambda each, said=content_type: wire.post_raw(each, b'{"nope": 1}', said),
            400,
        )


@pytest.mark.databases("sqlite")
def test_a_body_over_one_mebibyte_is_413(wire: Wire) -> None:
    body = json.dumps({"a": "x" * MIB}).encode()
    all_refused(wire.with_body, lambda each: wire.post_raw(each, body), 413)

    def send_chunked(endpoint: Endpoint) -> TestResponse:
        # What a server that reads chunks hands on: no length, and a stream that ends by itself.
        return wire.send(
            endpoint,
            input_stream=io.BytesIO(body),
            content_type="application/json",
            environ_overrides={"wsgi.input_terminated": True},
        )

    all_refused(wire.with_body, send_chunked, 413)


def test_a_body_of_one_mebibyte_is_read(wire: Wire) -> None:
    body = json.dumps({"a": "x"}).encode()
    body += b" " * (MIB - len(body))
    all_refused(wire.with_body, lambda each: wire.post_raw(each, body), 400)


# --- bodies that are not what the endpoint takes ---------------------------------------------

SAMPLES: dict[str, list[Any]] = {
    "string": ["x", "1", ""],
    "integer": [1, 0, -1, 2**53, 2**63, 10**400],
    "number": [1.5, 0.1],
    "boolean": [True, False],
    "null": [None],
    "array": [[], [[]], ["x"], [1]],
    "object": [{}, {"a": 1}],
}


def samples_of_other_types(schema: Any) -> Iterator[Any]:
    """Yield values of the JSON types that the schema does not take."""
    taken = set(types_of(schema))
    if "number" in taken:
        taken.add("integer")
    for kind, values in SAMPLES.items():
        if kind not in taken:
            yield from values


@pytest.mark.databases("sqlite")
def test_a_field_of_a_wrong_type_is_400_and_named(wire: Wire) -> None:
    problems = []
    for endpoint in wire.with_body:
        schema, document = endpoint.body_schema or {}, endpoint.document
        least = example(schema, document)
        for path, field in fields_of(schema, document):
            for value in samples_of_other_types(field):
                answer = wire.send(endpoint, json=replaced(least, path, value))
                if endpoint.of_helper and answer.status_code < 300:
                    # Builders send numbers and null for texts: helpers read what they can.
                    continue
                if path[0] == "filters" and path[-1] == "value" and answer.status_code == 422:
                    # A filter's value may be a number or a boolean; its text is compared.
                    continue
                found = faults(answer, *((400, 404, 422) if endpoint.of_helper else (400,)))
                if not found and str(path[0]) not in answer.text and not endpoint.of_helper:
                    found = [f"not named: {answer.text[:200]}"]
                problems.append(((str(endpoint), path, repr(value)[:30]), found))
    assert len(problems) > 1000
    assert_no_faults(problems)


@pytest.mark.databases("sqlite")
def test_a_missing_field_is_400_and_named(wire: Wire) -> None:
    problems = []
    for endpoint in wire.with_body:
        schema, document = endpoint.body_schema or {}, endpoint.document
        least = example(schema, document)
        for name in schema.get("required", ()):
            answer = wire.send(endpoint, json={k: v for k, v in least.items() if k != name})
            found = faults(answer, 400)
            if not found and f"{name}: is missing" not in answer.text:
                found = [f"not named: {answer.text[:200]}"]
            problems.append(((str(endpoint), name), found))
    assert_no_faults(problems)


@pytest.mark.databases("sqlite")
def test_an_unknown_field_is_400_and_named(wire: Wire) -> None:
    for name in ["nope", "", "__proto__", "x" * 100_000, "💥", "a.b[0]"]:
        for endpoint in wire.strict_with_body:
            body = example(endpoint.body_schema or {}, endpoint.document)
            message = refused(wire.send(endpoint, json={**body, name: 1}), 400)
            assert (name[:100] or '""') + ": is not known here" in message


@pytest.mark.databases("sqlite")
def test_an_unknown_field_inside_another_is_400(wire: Wire) -> None:
    problems = []
    for endpoint in wire.strict_with_body:
        schema, document = endpoint.body_schema or {}, endpoint.document
        least = example(schema, document)
        for path, field in fields_of(schema, document):
            if field.get("additionalProperties") is False:
                answer = wire.send(endpoint, json=replaced(least, (*path, "nope"), 1))
                found = faults(answer, 400)
                if not found and "nope" not in answer.text:
                    found = [f"not named: {answer.text[:200]}"]
                problems.append(((str(endpoint), path), found))
    assert_no_faults(problems)


HUGE = ["1e400", "-1e400", "1e-400", "1e999999", "1" + "0" * 4000, "9" * 25, "0." + "9" * 5000]


def test_a_huge_number_never_breaks_anything(wire: Wire) -> None:
    """Where a number may stand it may be taken; where it is refused, in the one shape."""
    for number in HUGE:
        problems = []
        for endpoint in wire.with_body:
            schema, document = endpoint.body_schema or {}, endpoint.document
            least = example(schema, document)
            for path, _ in fields_of(schema, document):
                body = json.dumps(replaced(least, path, "THE NUMBER")).replace(
                    '"THE NUMBER"', number
                )
                answer = wire.post_raw(endpoint, body.encode())
                found = faults(answer, 400, 404, 409, 422) if answer.status_code >= 300 else []
                problems.append(((str(endpoint), path), found))
        assert_no_faults(problems)


def many(schema: Any, document: Any) -> Iterator[list[Any] | dict[str, Any]]:
    """Yield values as long as a large body can hold, of an array or an object."""
    if "array" in types_of(schema):
        yield [example(schema.get("items", {}), document)] * 5_000
        yield list(range(1, 30_000))
    if "object" in types_of(schema):
        yield {f"p{i}": "1" for i in range(8_000)}


def many_wrong(schema: Any, document: Any) -> Iterator[list[Any] | dict[str, Any]]:
    """Yield values as long, of a type that no array or object holds."""
    if "array" in types_of(schema):
        yield [None] * 30_000
        yield [[]] * 30_000
    if "object" in types_of(schema):
        yield {f"p{i}": [] for i in range(8_000)}


def test_what_is_long_is_answered_within_a_second_of_work(wire: Wire) -> None:
    """At a quarter of the longest body; what is not linear would take minutes at the whole."""
    answered_soon(wire, many)


@pytest.mark.databases("sqlite")
def test_what_is_long_and_wrong_is_answered_within_a_second_of_work(wire: Wire) -> None:
    answered_soon(wire, many_wrong)


def timed(wire: Wire, endpoint: Any, body: Any) -> tuple[Any, float]:
    """Send a body; return the answer and the seconds of processor time it took."""
    began = time.thread_time()
    answer = wire.send(endpoint, json=body)
    return answer, time.thread_time() - began


def answered_soon(wire: Wire, values: Callable[..., Iterable[Any]]) -> None:
    """Send each value in place of each field that can hold it, and time the answers."""
    problems = []
    for endpoint in wire.with_body:
        if endpoint.rule.startswith(tuple(f"/<client_id>/api/v1/{kind}" for kind in KINDS_ALIKE)):
            continue
        schema, document = endpoint.body_schema or {}, endpoint.document
        least = example(schema, document)
        for path, field in fields_of(schema, document):
            for n, value in enumerate(values(field, document)):
                body = replaced(least, path, value)
                answer, spent = timed(wire, endpoint, body)
                if spent > 1:
                    # A busy machine slows one answer down, what is not linear slows each.
                    spent = min(timed(wire, endpoint, body)[1] for _ in range(3))
                found = faults(answer, 400, 404, 409, 422) if answer.status_code >= 300 else []
                if spent > 1:
                    found.append(f"{spent:.1f} s")
                problems.append(((str(endpoint), path, n), found))
    assert_no_faults(problems)


def test_ids_of_thousands_of_digits_make_no_long_message(wire: Wire) -> None:
    ids = [10**4000 + n for n in range(40)]
    body = {"properties": {"firstname": "x"}, "associations": {"deals": ids}}
    message = refused(wire.client.post("/contacts", body), 422)
    assert "associations.deals[0]: there is no deal 1000" in message
    assert len(message) < 5000


# --- paths -----------------------------------------------------------------------------------

NEVER_AN_ID = {
    "NUL": "%00",
    "NUL inside": "1%001",
    "a slash": "%2F",
    "a slash inside": "1%2F1",
    "not UTF-8": "%FF%FE",
    "a surrogate": "%ED%A0%80",
    "a line break": "%0D%0A",
    "a dot": ".",
    "dots": "..",
    "encoded dots": "%2E%2E",
    "a blank": "%20",
    "a percent sign": "%",
    "half an escape": "%2",
    "a letter": "x",
    "an emoji": "%F0%9F%92%A5",
    "a digit that is not ASCII": "%D9%A1",
    "a fraction": "1.0",
    "a negative number": "-1",
    "zero": "0",
    "2^53": str(2**53),
    "2^63": str(2**63),
    "2^64": str(2**64),
    "a number of 5,000 digits": "9" * 5000,
    "a template": "%7B%7Bid%7D%7D",
    "SQL": "1'%20or%20'1'='1",
}


def test_a_path_part_that_names_nothing_is_4xx(wire: Wire) -> None:
    for part in NEVER_AN_ID.values():
        problems = []
        for endpoint in wire.endpoints:
            for name in endpoint.placeholders:
                if name in ("client_id", "path"):
                    continue
                # Whoever makes a team names it and its owners.
                if name in ("team", "owner") and endpoint.method in ("PUT", "POST"):
                    continue
                options: dict[str, Any] = {}
                if endpoint.body_schema is not None:
                    options["json"] = example(endpoint.body_schema, endpoint.document)
                path = endpoint.path(wire.client, **{name: part})
                answer = wire.send(endpoint, path=path, **options)
                # Nobody is signed in to the console here, nor has a cookie for a form.
                allowed = (401, 403) if endpoint.rule.startswith("/console/") else ()
                problems.append(
                    ((str(endpoint), name), faults(answer, 400, 404, 405, 422, *allowed))
                )
        assert len(problems) > 30, part
        assert_no_faults(problems)


def test_a_value_of_a_unique_property_that_no_record_has_is_404(wire: Wire) -> None:
    for part in NEVER_AN_ID.values():
        for value in (part, f"{part}@example.com", (part * 1000)[:9000]):
            answer = wire.client.get(f"/contacts/{value}?idProperty=email")
            refused(answer, 400 if "%00" in value else 404)


def test_a_client_id_of_any_kind_is_the_same_401(wire: Wire) -> None:
    of_api = [each for each in wire.endpoints if each.of_api]
    for part in ["%00", "%FF", "..", "%20", "x" * 5000, "admin", "chatbot", "%F0%9F%92%A5"]:
        paths = {each: each.path(wire.client, client_id=part) for each in of_api}
        all_refused(of_api, lambda each, paths=paths: wire.send(each, path=paths[each]), 401)


def test_raw_bytes_in_a_path_are_4xx(wire: Wire) -> None:
    for tail in ("/contacts/\xff\xfe", "/\xc3", "/contacts/1/associations/\xe2\x82"):
        answer = wire.send(
            wire.endpoints[0],
            method="GET",
            environ_overrides={"PATH_INFO": f"{wire.client.base}{tail}"},
        )
        refused(answer, 400, 404)


# --- query strings ---------------------------------------------------------------------------


@pytest.mark.databases("sqlite")
def test_an_unknown_query_parameter_is_400_and_the_known_ones_are_named(wire: Wire) -> None:
    for endpoint in wire.with_query:
        message = refused(wire.raw_query(endpoint, "nope=1"), 400, 415)
        if endpoint.method == "GET":
            assert "nope" in message, endpoint
            assert all(each["name"] in message for each in endpoint.query_parameters)


@pytest.mark.databases("sqlite")
def test_an_endpoint_without_query_parameters_refuses_them_too(wire: Wire) -> None:
    strict = [each for each in wire.endpoints if each.of_api or each.of_admin]
    bare = [each for each in strict if not each.query_parameters]
    assert {each.method for each in bare} >= {"GET", "POST", "PUT", "PATCH", "DELETE"}
    for endpoint in bare:
        assert "nope" in refused(wire.raw_query(endpoint, "nope=1"), 400)


def test_a_query_that_names_nothing_changes_nothing(wire: Wire) -> None:
    for endpoint in [each for each in wire.endpoints if each.of_api and each.method == "GET"]:
        plain, empty = wire.send(endpoint), wire.raw_query(endpoint, "&&")
        assert plain.status_code == empty.status_code, endpoint


@pytest.mark.databases("sqlite")
def test_query_garbage_is_400(wire: Wire) -> None:
    for query in [
        "%00=1",
        "limit=%00",
        "limit=%FF",
        "%FF=1",
        "properties=%FF",
        "properties=%ED%A0%80",
        "properties=a%00b",
        "limit=\xff",
        "\xff",
        "cursor=\xc3\x28",
        "=",
        "=1",
        "limit",
        "limit=1&limit=1",
        "properties=a&properties=b",
        "cursor=&cursor=",
        "LIMIT=1",
        "limit[]=1",
        "&".join(f"x{i}=1" for i in range(5000)),
        "x" * 100_000,
    ]:
        lists = [each for each in wire.with_query if each.method == "GET"]
        all_refused(lists, lambda each, query=query: wire.raw_query(each, query), 400)


WRONG_VALUES: dict[str, list[str]] = {
    "integer": [
        "",
        "x",
        "0",
        "101",
        "-1",
        "%2B1",
        "%201",
        "1.0",
        "1e1",
        "1_0",
        "%EF%BC%91",
        "9" * 30,
    ],
    "enum": ["x", "DESC", "desc%20", "%00", "desc,asc"],
    "array": ["nope"],
    "boolean": ["", "x", "TRUE%00", "2"],
}


@pytest.mark.databases("sqlite")
def test_a_query_parameter_of_a_wrong_value_is_400_and_named(wire: Wire) -> None:
    problems = []
    for endpoint in wire.with_query:
        for parameter in endpoint.query_parameters:
            schema = parameter["schema"]
            kind = "enum" if "enum" in schema else types_of(schema)[0]
            if kind == "array" and "enum" not in schema["items"]:
                continue
            for value in WRONG_VALUES.get(kind, []):
                name = parameter["name"]
                options: dict[str, Any] = {}
                if endpoint.body_schema is not None:
                    is_search = "filters" in endpoint.body_schema["properties"]
                    least = example(endpoint.body_schema, endpoint.document)
                    options["json"] = {"filters": []} if is_search else least
                answer = wire.send(
                    endpoint, environ_overrides={"QUERY_STRING": f"{name}={value}"}, **options
                )
                found = faults(answer, 400)
                if not found and name not in answer.text:
                    found = [f"not named: {answer.text[:200]}"]
                problems.append(((str(endpoint), name, value), found))
    assert len(problems) > 100
    assert_no_faults(problems)


@pytest.mark.databases("sqlite")
def test_a_cursor_that_the_hub_never_gave_is_400(wire: Wire) -> None:
    for cursor in ["x", "AAAA", "%C3%A9", "=", "A" * 10_000, "%25", "..", "%F0%9F"]:
        lists = [
            each
            for each in wire.with_query
            if each.method == "GET" and any(p["name"] == "cursor" for p in each.query_parameters)
        ]
        all_refused(
            lists, lambda each, cursor=cursor: wire.raw_query(each, f"cursor={cursor}"), 400
        )


# --- methods and headers ---------------------------------------------------------------------


@pytest.mark.databases("sqlite")
def test_a_method_that_a_path_does_not_take_is_405_with_those_it_takes(wire: Wire) -> None:
    taken: dict[str, set[str]] = {}
    for endpoint in wire.endpoints:
        methods = taken.setdefault(endpoint.rule, {"OPTIONS"})
        methods |= {"GET", "HEAD"} if endpoint.method == "GET" else {endpoint.method}
    # `search` stands where ids stand but is none.
    problems = []
    for endpoint in wire.endpoints:
        allowed = taken[endpoint.rule]
        for method in METHODS:
            if method not in allowed:
                answer = wire.send(endpoint, method=method)
                found = faults(answer, 405)
                told = {each.strip() for each in answer.headers.get("Allow", "").split(",")}
                if not found and told != allowed:
                    found = [f"Allow {told}, not {allowed}"]
                problems.append(((method, endpoint.rule), found))
    assert len(problems) > 100
    assert_no_faults(problems)


def test_head_answers_like_get_without_a_body(wire: Wire) -> None:
    readers = [each for each in wire.endpoints if each.method == "GET"]
    for endpoint in readers:
        full, head = wire.send(endpoint), wire.send(endpoint, method="HEAD")
        assert (head.status_code, head.content_type, head.data) == (
            full.status_code,
            full.content_type,
            b"",
        ), endpoint
        assert header_faults(head) == []


@pytest.mark.databases("sqlite")
def test_options_names_the_methods(wire: Wire) -> None:
    for endpoint in wire.endpoints:
        answer = wire.send(endpoint, method="OPTIONS")
        assert answer.status_code == 200, endpoint
        assert endpoint.method in answer.headers["Allow"]
        assert header_faults(answer) == [], endpoint


@pytest.mark.databases("sqlite")
def test_hostile_headers_never_break_anything(wire: Wire) -> None:
    for headers in [
        {"If-Match": "x"},
        {"If-Match": '"' + "9" * 5000 + '"'},
        {"If-Match": 'W/"1"'},
        {"If-Match": '"\xff"'},
        {"Accept": "text/html"},
        {"Accept": "\xff;q=x"},
        {"Accept-Encoding": "\xff"},
        {"Content-Length": "-1"},
        {"Content-Length": "x"},
        {"Content-Length": "9" * 30},
        {"Host": "a b"},
        {"Host": "\xff"},
        {"Host": "[::"},
        {"Host": "x:99999999"},
        {"X-Request-Id": "\xff" * 5000},
        {"X-Forwarded-For": "\xff, , 1.2.3.4.5"},
        {"Cookie": "=;\xff=\x01"},
        {"Range": "bytes=x-"},
        {"If-Modified-Since": "yesterday"},
        {"Authorization": "Basic \xff"},
    ]:
        problems = []
        for endpoint in wire.endpoints:
            answer = wire.send(endpoint, headers=headers)
            found = header_faults(answer)
            if answer.status_code >= 300:
                found = faults(answer, 400, 404, 409, 412, 413, 415, 416, 422)
            if endpoint.of_admin and "Authorization" in headers:
                found = faults(answer, 401)
            if endpoint.rule.startswith("/docs"):
                # It leads to /docs/, and errors are pages for whoever takes any type.
                found = header_faults(answer)
            if endpoint.of_console and answer.status_code in (303, 401, 403, 404):
                # Nobody is signed in, and in HTML or JSON: tests/console says how that is told.
                found = header_faults(answer)
            problems.append((endpoint, found))
        assert_no_faults(problems)


@pytest.mark.databases("sqlite")
def test_a_hostile_request_id_is_replaced(wire: Wire) -> None:
    for sent in ("a b", "é", "x" * 129, 'x"', "<script>", "\x01"):
        answer = wire.send(wire.endpoints[0], headers={"X-Request-Id": sent})
        assert answer.headers["X-Request-Id"] not in ("", sent)


# --- helpers: forms --------------------------------------------------------------------------

FORM = "application/x-www-form-urlencoded"
BAD_FORMS = {
    "nothing": b"",
    "not UTF-8": b"contactToken=\xff&min=\xfe",
    "percent-encoded, not UTF-8": b"contactToken=%FF&min=%FE",
    "the same key twice": b"contactToken=a&contactToken=b&contactnumber=1&contactnumber=2"
    b"&min=1&min=2&contactId=1&contactId=2",
    "too many fields": b"&".join(b"x%d=1" % i for i in range(5000)),
    "separators only": b"&&&=&=&;",
    "a list and an object": b"contactToken=a&contactId=1&props[]=a&props[x]=b"
    b"&properties[]=a&properties[x]=b",
    "unclosed brackets": b"props[=1&properties[[x]]=2",
    "a multipart body": b"--x\r\nContent-Disposition: form-data; name=min\r\n\r\n1\r\n--x--",
}


@pytest.mark.databases("sqlite")
def test_a_bad_form_is_400(wire: Wire) -> None:
    for body in BAD_FORMS.values():
        for content_type in [FORM, "text/plain", "multipart/form-data; boundary=x"]:
            all_refused(
                wire.helpers,
                lambda each, body=body, said=content_type: wire.post_raw(each, body, said),
                400,
            )


@pytest.mark.databases("sqlite")
def test_helpers_recognise_json_whatever_the_content_type(wire: Wire) -> None:
    for content_type in ("", "text/plain", FORM, "text/html; charset=x", "é"):
        for endpoint in wire.helpers:
            body = json.dumps({"nothing": "of use"}).encode()
            message = refused(wire.post_raw(endpoint, body, content_type), 400)
            assert "is missing" in message, endpoint


@pytest.mark.databases("sqlite")
def test_helpers_pass_over_unknown_keys_of_any_kind(wire: Wire) -> None:
    [endpoint] = [each for each in wire.helpers if each.rule == "/crm-api-interface/getRandomInt"]
    state: dict[str, Any] = {"": None, "x" * 100_000: [[{}]], "__proto__": {"a": 1e400}}
    body = json.dumps({**state, "min": "3", "max": 3}).replace("Infinity", "1e400")
    answer = wire.post_raw(endpoint, body.encode())
    assert (answer.status_code, answer.json["value"]) == (200, 3)  # type: ignore[index]


@pytest.mark.databases("sqlite")
def test_a_record_with_more_properties_than_there_can_be_is_refused_at_once(client: Client) -> None:
    body = {"properties": {f"name_{n}": "x" for n in range(MAX_PROPERTIES + 1)}}
    message = refused(client.post("/contacts", body), 400)
    assert "properties: has 1001 properties; send at most 1000" in message
