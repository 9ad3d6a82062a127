"""Logs without personal data: one JSON object per line on standard error.

A log line consists of a fixed event text and the hub's own ids, never of a body, a property value,
an address or a secret.
"""

from __future__ import annotations

import logging
import sys
from contextlib import suppress

import structlog


def configure(level: str) -> None:
    """Write log messages of at least this level, also those of libraries, to standard error.

    `level`: "debug" to "error".
    """
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
    # urllib3 logs paths, which may contain email addresses.
    logging.getLogger("urllib3").setLevel(logging.ERROR)


class _Lines(structlog.WriteLogger):
    def msg(self, message: str) -> None:
        # A full disk or a closed terminal must not fail the work that is logged; handlers
        # of the logging module behave the same.
        with suppress(OSError, ValueError):
            super().msg(message)

    log = debug = info = warn = warning = error = critical = msg
