"""The present request, without Flask's proxies: they look it up anew for each attribute."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def current(proxy: T) -> T:
    """Return what `flask.request`, say, stands for in this request."""
    it: T = proxy._get_current_object()  # type: ignore[attr-defined]
    return it
