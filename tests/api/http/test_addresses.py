"""Whose request it is: nobody is believed who is not trusted."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from werkzeug.test import EnvironBuilder
from werkzeug.wrappers import Request

from crmhub.api.http.addresses import client_address, is_https

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))


@pytest.mark.parametrize(
    ("remote", "forwarded", "caller"),
    [
        ("203.0.113.7", "", "203.0.113.7"),
        ("203.0.113.7", "198.51.100.1", "203.0.113.7"),
        ("10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("10.0.0.1", "1.1.1.1, 198.51.100.1, 10.0.0.2", "198.51.100.1"),
        ("10.0.0.1", "10.0.0.3,10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, nonsense", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1:1234", "198.51.100.1"),
        ("fd00::1", "[2001:db8::1]:1234", "2001:db8::1"),
        ("fd00::1", "2001:db8::1", "2001:db8::1"),
        ("::ffff:10.0.0.1", "198.51.100.1", "198.51.100.1"),
        ("", "198.51.100.1", ""),
    ],
)
def test_the_nearest_address_that_is_not_trusted_is_the_caller(
    remote: str, forwarded: str, caller: str
) -> None:
    environ = EnvironBuilder(headers={"X-Forwarded-For": forwarded}).get_environ()
    environ["REMOTE_ADDR"] = remote
    assert client_address(Request(environ), TRUSTED) == caller  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("caller", "said", "https"),
    [
        ("10.0.0.1", "https", True),
        ("10.0.0.1", "http, https", True),
        ("10.0.0.1", "https, http", False),
        ("10.0.0.1", None, False),
        ("203.0.113.5", "https", False),
    ],
)
def test_a_trusted_proxy_says_whether_its_caller_came_over_https(
    caller: str, said: str | None, https: bool
) -> None:
    headers = {"X-Forwarded-Proto": said} if said else {}
    environ = EnvironBuilder(headers=headers).get_environ() | {"REMOTE_ADDR": caller}
    assert is_https(Request(environ), TRUSTED) is https  # type: ignore[arg-type]
