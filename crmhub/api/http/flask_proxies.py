"""The current app, request and `g` themselves: Flask's proxies cost a lookup per attribute."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import flask

T = TypeVar("T")


def _behind(proxy: T) -> Callable[[], T]:
    return cast(Callable[[], T], proxy._get_current_object)  # type: ignore[attr-defined]


app = _behind(flask.current_app)
g = _behind(flask.g)
request = _behind(flask.request)
