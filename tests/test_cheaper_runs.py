"""What is spared changes nothing."""

from __future__ import annotations

import gc

import pytest
from werkzeug.routing import BuildError, IntegerConverter, Map, Rule


class Hexadecimal(IntegerConverter):
    regex = "[0-9a-f]+"

    def to_url(self, value: int) -> str:
        return f"{value:x}"


def build(*rules: Rule, **options: object) -> str:
    routes = Map(list(rules), **options)  # type: ignore[arg-type]
    return routes.bind("here.example").build("page", {"id": 26})


def test_routes_of_one_text_build_what_their_own_app_means() -> None:
    text = "/pages/<number:id>/x"
    for converter, address in ((IntegerConverter, "26"), (Hexadecimal, "1a")) * 2:
        rule = Rule(text, endpoint="page")
        assert build(rule, converters={"number": converter}) == f"/pages/{address}/x"


def test_routes_of_one_text_may_differ_in_where_and_with_what_they_are() -> None:
    assert build(Rule("/p/<int:id>", endpoint="page")) == "/p/26"
    assert (
        build(Rule("/p/<int:id>", endpoint="page", subdomain="b")) == "http://b.here.example/p/26"
    )
    assert build(Rule("/p", endpoint="page")) == "/p?id=26"
    fixed = Rule("/p/<int:id>", endpoint="page", defaults={"id": 3})
    with pytest.raises(BuildError):
        build(fixed)
    assert build(Rule("/p/<int:id>", endpoint="page", defaults={"id": 26})) == "/p/26"


def test_garbage_is_collected_while_tests_run() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
