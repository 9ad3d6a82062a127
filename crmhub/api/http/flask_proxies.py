"""Functions that return the objects behind Flask's proxies `current_app`, `g` and `request`.

The proxies look up their object at each access to an attribute, which takes time.
"""

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
