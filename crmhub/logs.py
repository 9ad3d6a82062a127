"""Logs without personal data, on standard error.

A line consists of a fixed event text and the hub's own ids, never of a body, a property value, an
address or a secret. On a terminal it is text, elsewhere one JSON object.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import structlog

_SHOWN_FIRST = frozenset({"event", "level", "timestamp"})


def configure(level: str) -> None:
    """`level`: "debug" to "error"."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    render: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if sys.stderr is not None and sys.stderr.isatty():
        render = as_text
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(
            logging.getLevelNamesMapping()[level.upper()]
        ),
        logger_factory=lambda *_: _Lines(sys.stderr),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processor=render,
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # urllib3 logs paths, which may contain email addresses.
    logging.getLogger("urllib3").setLevel(logging.ERROR)


def as_text(_logger: Any, _name: str, entry: MutableMapping[str, Any]) -> str:
    """A processor of structlog. The request id appears from warnings on.

    Values with blanks or control characters are quoted, so that they cannot pass for other values
    or control the terminal.
    """
    level = str(entry.get("level", ""))
    moment = datetime.fromisoformat(str(entry["timestamp"])).astimezone()
    hidden = _SHOWN_FIRST | ({"request_id"} if level in ("debug", "info") else frozenset())
    values = [f"{name}={_quoted(value)}" for name, value in entry.items() if name not in hidden]
    event = str(entry.get("event", ""))
    event = event if event.isprintable() else json.dumps(event)
    return " ".join([f"{moment:%H:%M:%S}", f"{level.upper():7}", event, *values])


def _quoted(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    is_plain = text.isprintable() and (not isinstance(value, str) or not set(text) & set(' "='))
    return text if is_plain and text else json.dumps(text)


class _Lines(structlog.WriteLogger):
    def msg(self, message: str) -> None:
        # A full disk or a closed terminal must not fail the work that is logged.
        with suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warn = warning = error = critical = msg
