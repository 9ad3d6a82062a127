"""The file of plans: what it may say, and every fault named."""

from __future__ import annotations

import pytest

from crmhub.accounts.plans import BUILT_IN, Plan, Rate, load_plans, parse_rate
from crmhub.settings import SettingsError


@pytest.fixture
def plans_file(tmp_path):
    def write(text):
        path = tmp_path / "plans.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_built_in_plans_are_those_promised():
    assert load_plans(None) == {
        "default": Plan("default", Rate(1000, 10), None, {}),
        "unlimited": Plan("unlimited", None, None, {}),
        "free": Plan(
            "free",
            Rate(100, 10),
            None,
            {"contacts": 1000, "deals": 100, "companies": 100, "tickets": 100},
        ),
    }


def test_a_file_adds_plans_and_replaces_built_in_ones(plans_file):
    plans = load_plans(
        plans_file(
            """
            [free]
            rate_limit = ""
            contacts = 5

            [gold]
            rate_limit = "50/s"
            key_rate_limit = "10/2m"
            """
        )
    )
    assert plans["free"] == Plan("free", None, None, {"contacts": 5})
    assert plans["gold"] == Plan("gold", Rate(50, 1), Rate(10, 120), {})
    assert plans["default"] == BUILT_IN["default"]


def test_a_plan_that_says_no_rate_has_the_usual_one(plans_file):
    assert load_plans(plans_file("[plain]\ndeals = 0\n"))["plain"] == Plan(
        "plain", Rate(1000, 10), None, {"deals": 0}
    )


def test_every_fault_is_named_at_once(plans_file):
    path = plans_file(
        """
        contacts = 3
        ["a b"]
        [gold]
        rate_limit = "fast"
        key_rate_limit = 5
        contacts = -1
        deals = true
        tickets = "many"
        leads = 3
        """
    )
    with pytest.raises(SettingsError) as error:
        load_plans(path)
    for fault in (
        f"{path}: contacts stands outside a table",
        "[a b]: a plan's name",
        "[gold] rate_limit: 'fast' is not a rate",
        "[gold] key_rate_limit: 5 is not a rate",
        "[gold] contacts: -1 is not a number of records",
        "[gold] deals: True is not a number",
        "[gold] tickets: 'many' is not a number",
        "[gold] leads: there is no such entry; known are rate_limit, key_rate_limit, contacts",
    ):
        assert fault in str(error.value)
    assert len(error.value.problems) == 8


@pytest.mark.parametrize("content", [b"[gold", b"\xff\xfe", b"[a]\n[a]\n", b"a = " + b"[" * 2000])
def test_a_file_that_cannot_be_read_is_named(tmp_path, content):
    path = tmp_path / "plans.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"plans\.toml: cannot be read as TOML"):
        load_plans(path)


@pytest.mark.parametrize(
    "text", ["0/s", "1/0s", "1/2h", "1/3601s", "-1/s", "1/s/s", "1.5/s", "１/s", "100", "1/day"]
)
def test_rates_out_of_range_are_refused(text):
    with pytest.raises(ValueError, match=r"rate|range"):
        parse_rate(text)
