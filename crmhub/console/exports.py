"""The console's export of records as a CSV file, which is sent while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from io import StringIO

import flask

from crmhub.api.http.authentication import hub
from crmhub.console.access import needs
from crmhub.console.blueprint import blueprint
from crmhub.console.imports import csv_download
from crmhub.console.records import filter_of, filter_rows, kind_of
from crmhub.console.sessions import author
from crmhub.csv.exporting import Selection, export
from crmhub.errors import BadRequest

_DELIMITERS = (",", ";", "\t", "|")


@blueprint.get("/accounts/<client_id>/export")
@needs("data")
def imports_export(client_id: str) -> flask.Response:
    args = flask.request.args
    account, kind = hub().load_account(client_id), kind_of(args.get("kind", "contacts"))
    delimiter = args.get("delimiter", ",")
    if delimiter not in _DELIMITERS:
        raise BadRequest("Choose comma, semicolon, tab or bar as the delimiter.")
    selection = Selection(
        tuple(map(filter_of, filter_rows())), labels="labels" in args, delimiter=delimiter
    )
    out = StringIO(newline="")
    out.write("\ufeff" * ("bom" in args))
    steps = export(hub().records, account, kind, selection, out, by=author())
    # The first page is read here, so that invalid filters are an error page.
    next(steps)
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    return csv_download(account, _parts(out, steps), f"{client_id}-{kind.name}-{day}.csv")


def _parts(out: StringIO, steps: Iterator[object]) -> Iterator[bytes]:
    while True:
        yield out.getvalue().encode("utf-8", "surrogatepass")
        out.seek(0)
        out.truncate()
        if next(steps, None) is None:
            break
    if rest := out.getvalue():
        yield rest.encode("utf-8", "surrogatepass")
