"""The page at the address of a fake CRM: its records, as a person reads them after a test call."""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

from adapters.fakes.answers import Answer
from adapters.fakes.records import Record

if TYPE_CHECKING:
    from adapters.fakes.fake import Fake

PATH = "/"
MOST = 100
"""The number of records of each kind that the page shows."""
_TITLES = ("dealname", "subject", "name", "title", "Deal_Name", "Subject", "Account_Name")
_NAMES = (("firstname", "lastname"), ("first_name", "last_name"), ("First_Name", "Last_Name"))
_EMAILS = ("email", "email_from", "Email", "domain")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Records of the fake {crm}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 1.5rem auto;
  padding: 0 1rem; overflow-wrap: anywhere }}
article {{ border: 1px solid #8888; border-radius: .5rem; padding: .25rem 1rem; margin: 1rem 0 }}
article:target {{ border-color: currentcolor }}
h3 {{ margin: .5rem 0 }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; vertical-align: top; padding: .15rem 1rem .15rem 0 }}
th {{ font-weight: normal; width: 35% }}
td {{ white-space: pre-wrap }}
tr.own {{ font-weight: bold }}
</style></head><body><main><h1>Records of the fake {crm}</h1>
<p>This is a fake {crm} for trying crmhub. It keeps its records in memory: they are gone when it
stops. Reload the page after a call. Empty properties are left out; the hub's mark, by which it
recognizes a record after an uncertain answer, is bold.</p>
<nav>{counts}</nav>
{sections}</main></body></html>"""


def answer(fake: Fake) -> Answer:
    """Return the page with the newest records of each kind, and the ids of linked records."""
    crm = html.escape(type(fake).__name__.removeprefix("Fake"))
    with fake.lock:
        stored = {kind: fake.stored(kind) for kind in fake.kinds}
        counts = " · ".join(
            f'<a href="#{kind}">{len(records)} {kind}</a>' for kind, records in stored.items()
        )
        sections = "".join(_section(fake, kind, [*stored[kind].values()]) for kind in stored)
    page = _PAGE.format(crm=crm, counts=counts, sections=sections)
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    }
    return Answer(200, page.encode("utf-8", "replace"), headers, "text/html;charset=utf-8")


def _section(fake: Fake, kind: str, records: list[Record]) -> str:
    newest = sorted(records, key=lambda record: record.created_at, reverse=True)[:MOST]
    more = len(records) - len(newest)
    articles = [_article(fake, kind, record) for record in newest] or ["<p>None yet.</p>"]
    if more:
        articles.append(f"<p>{more} older ones are left out.</p>")
    return f'<section><h2 id="{kind}">{kind.capitalize()}</h2>{"".join(articles)}</section>\n'


def _article(fake: Fake, kind: str, record: Record) -> str:
    properties = _flat(fake.readable(kind, record))
    rows = [_row(name, html.escape(value)) for name, value in sorted(properties.items())]
    for to in fake.kinds:
        links = [
            f'<a href="#{html.escape(f"{to}-{id_}")}">{html.escape(id_)}</a>'
            for id_ in fake.linked(kind, record.id, to)
        ]
        if links:
            rows.append(_row(f"linked {to}", ", ".join(links)))
    created, changed = (
        f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
        for ms in (record.created_at, record.updated_at)
    )
    id_ = html.escape(record.id)
    return (
        f'<article id="{kind}-{id_}"><h3>{html.escape(_title(properties) or record.id)}</h3>'
        f"<p>Id {id_} · created {created} · changed {changed}</p><table>{''.join(rows)}</table>"
        "</article>"
    )


def _row(name: str, value: str) -> str:
    own = ' class="own"' if "crmhub" in name else ""
    return f'<tr{own}><th scope="row">{html.escape(name)}</th><td>{value}</td></tr>'


def _flat(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties that have a value, as texts."""
    return {
        name: value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
        for name, value in properties.items()
        # Odoo's empty value is false. A number of 0 is a value.
        if value is not False and value not in (None, "", [], {})
    }


def _title(properties: dict[str, str]) -> str:
    """Return the name under which a person knows a record; "" if it has none."""
    full = (" ".join(properties[n] for n in pair if n in properties) for pair in _NAMES)
    others = (properties.get(name, "") for name in (*_TITLES, *_EMAILS))
    return next(filter(None, (*full, *others)), "")
