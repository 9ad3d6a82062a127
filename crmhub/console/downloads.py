"""Send CSV files page by page, after the request's own work is over."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from io import StringIO
from urllib.parse import quote

import flask

from crmhub.api.http.authentication import hub

Bind = Callable[[], AbstractContextManager[None]]


def csv_download(bind: Bind, parts: Generator[bytes], name: str) -> flask.Response:
    """`bind` binds the database to the accounts whose rows `parts` reads."""
    plain = re.sub(r'[^ -~]|["\\]', "_", name)
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name)}"
    # Read here, so that an error is an error page.
    first = next(parts, b"")

    def read() -> Iterator[bytes]:
        yield first
        # Each part is bound anew: by then the request is over.
        while True:
            with bind():
                part = next(parts, None)
            if part is None:
                return
            yield part

    response = flask.Response(
        read(),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": disposition},
    )

    @response.call_on_close
    def end() -> None:
        # The audit log has also what was sent before the browser hung up.
        with bind():
            parts.close()

    return response


def csv_parts(out: StringIO, steps: Generator[object]) -> Generator[bytes]:
    """Yield what `out` has got, after each of `steps` has written to it."""
    with closing(steps):
        for _ in steps:
            yield out.getvalue().encode("utf-8", "surrogatepass")
            out.seek(0)
            out.truncate()


def csv_of_list(name: str, begin: Callable[[StringIO], Generator[object]]) -> flask.Response:
    """Return an export of rows of all accounts that the user sees, with a BOM for spreadsheets.

    `begin` begins to write to a file, and yields after each page.
    """
    out = StringIO(newline="")
    out.write("\ufeff")
    file_name = f"{name}-{datetime.now(UTC):%Y-%m-%d}.csv"
    return csv_download(hub().database.across_accounts, csv_parts(out, begin(out)), file_name)
