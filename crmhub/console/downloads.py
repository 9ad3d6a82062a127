"""Send CSV files page by page, after the request's own work is over."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from io import StringIO
from urllib.parse import quote

import flask

from crmhub.api.http.authentication import hub

Bind = Callable[[], AbstractContextManager[None]]


def csv_download(bind: Bind, parts: Iterator[bytes], name: str) -> flask.Response:
    """`bind` binds the database to the accounts whose rows `parts` reads."""
    plain = re.sub(r'[^ -~]|["\\]', "_", name)
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"

    def read() -> Iterator[bytes]:
        # Each part is bound anew: by then the request is over.
        while True:
            with bind():
                part = next(parts, None)
            if part is None:
                return
            yield part

    return flask.Response(
        read(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": disposition},
    )


def csv_parts(out: StringIO, steps: Iterator[object]) -> Iterator[bytes]:
    """Yield what `out` has got, and then what each of `steps` writes to it."""
    while True:
        yield out.getvalue().encode("utf-8", "surrogatepass")
        out.seek(0)
        out.truncate()
        if next(steps, None) is None:
            break
    if rest := out.getvalue():
        yield rest.encode("utf-8", "surrogatepass")


def csv_of_list(name: str, begin: Callable[[StringIO], Iterator[object]]) -> flask.Response:
    """Return an export of rows of all accounts that the user sees, with a BOM for spreadsheets.

    `begin` begins to write to a file, and yields after each page.
    """
    out = StringIO(newline="")
    out.write("\ufeff")
    steps = begin(out)
    # The first page is read here, so that an error is an error page.
    next(steps)
    file_name = f"{name}-{datetime.now(UTC):%Y-%m-%d}.csv"
    return csv_download(hub().database.across_accounts, csv_parts(out, steps), file_name)
