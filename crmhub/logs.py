"""Logs: one JSON object a line on standard error, without personal data.

Whoever logs names an event in fixed words and adds ids of the hub's own; never a body, a value of
a property, an address or a secret.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

import structlog


def configure(level: str) -> None:
    """Log from `level` ("debug" to "error") on, our own lines and those of libraries alike."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
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
            processor=structlog.processors.JSONRenderer(),
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    # Its lines hold paths, and those may hold e-mail addresses.
    logging.getLogger("urllib3").setLevel(logging.ERROR)


class _Lines(structlog.WriteLogger):
    def msg(self, message: str) -> None:
        # A full disk, a closed terminal: what is done must not fail for want of a log. Handlers
        # of logging have it so, too.
        with suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warn = warning = error = critical = msg
