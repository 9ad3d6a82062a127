"""Zoho's API for one connection: tokens, limits, COQL queries, and writes of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from adapters.zoho.connecting import EDITIONS, accounts_url, api_url
from adapters.zoho.failures import Duplicate, Refused, failure, token_failure
from crmhub.adapter import (
    AdapterError,
    Context,
    Kind,
    NotFound,
    Rejected,
    Uncertain,
)
from crmhub.adapter.http import GENERAL, QUOTA, Answer, Http
from crmhub.adapter.oauth import Grant, refresh_form

MODULES: Mapping[Kind, str] = {
    "contacts": "Contacts",
    "deals": "Deals",
    "companies": "Accounts",
    "tickets": "Cases",
}
"""Zoho's names of the kinds of records."""
# Zoho gives 10 access tokens per refresh token in 10 minutes.
_TOKENS, _TOKENS_S, _DAY_S = 10, 600.0, 86_400.0
# Of all calls, only so many may be COQL queries or write more than 10 records at the same time.
_HEAVY_AT_ONCE, _ROWS_PER_CREDIT = 10, 10
# 200 records of a query are one credit.
_PAGE = 200


class Api:
    def __init__(self, context: Context, *, title: str) -> None:
        self._context = context
        self._grant = grant = Grant(context, title, self._exchange, keeps=["api_domain"])
        self._login = Http(
            context,
            accounts_url(context.settings),
            crm=title,
            authorize=dict,
            failure=token_failure,
            budgets={GENERAL: context.budget("tokens", calls=_TOKENS, seconds=_TOKENS_S)},
            secrets=grant.secrets,
        )
        credits, at_once = EDITIONS[context.settings["edition"]]
        http = partial(
            Http,
            context,
            self._base_url,
            crm=title,
            authorize=lambda: {"Authorization": f"Zoho-oauthtoken {grant.token()}"},
            renew=grant.renew,
            failure=failure,
            budgets={QUOTA: context.budget("credits", calls=credits, seconds=_DAY_S)},
            secrets=grant.secrets,
        )
        self._http = http(at_once=at_once)
        self.send = self._http.send
        # Both take leases of the same names, so that together they stay within `at_once`.
        self._heavy = http(at_once=min(at_once, _HEAVY_AT_ONCE))

    def _base_url(self) -> str:
        usual = api_url(self._context.settings)
        return f"{(self._grant.kept('api_domain') or usual).rstrip('/')}/crm/v8"

    def _exchange(self, credentials: Mapping[str, str]) -> Answer:
        form = refresh_form(credentials)
        return self._login.send("POST", "oauth", "v2", "token", form=form, reads=True)

    @property
    def clock_ahead(self) -> float:
        """By how many seconds Zoho's clock is ahead of this machine's, as its last query says."""
        return self._heavy.clock_ahead

    def record(self, kind: Kind, record_id: str) -> Mapping[str, Any]:
        answer = self.send("GET", MODULES[kind], record_id)
        if answer.status == 204:
            raise NotFound("Zoho has no such record")
        for row in answer.items("data"):
            if answer.id(row) == record_id:
                return row
        raise answer.broken("it is another record")

    def query(
        self, kind: Kind, columns: Sequence[str], where: str
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the ids and columns of records, oldest first; `where` is a condition of COQL."""
        chosen = ", ".join(["id", *columns])
        query = f"select {chosen} from {MODULES[kind]} where {where} order by id asc"
        offset, more = 0, True
        while more:
            page = f" limit {_PAGE}" + (f" offset {offset}" if offset else "")
            body = {"select_query": query + page}
            answer = self._heavy.send("POST", "coql", body=body, reads=True)
            if answer.status == 204:
                return
            rows = answer.items("data")
            for row in rows:
                record_id = answer.id(row)
                if not record_id.isdecimal():
                    raise answer.broken("an id is no number")
                yield record_id, row
            offset += len(rows)
            info = answer.mapping(answer.object().get("info")) if rows else {}
            more = info.get("more_records") is True

    def write(
        self, method: str, kind: Kind, rows: Sequence[Mapping[str, Any]], *path: str
    ) -> list[str | AdapterError]:
        """Write up to 100 records; return the id or the error of each, in order.

        An error of the whole call, or of the single record in `path`, is raised.
        """
        body: dict[str, Any] = {"data": list(rows)}
        if self._context.settings["run_workflows"] == "false":
            body["trigger"] = []
        is_heavy = len(rows) > _ROWS_PER_CREDIT
        http, cost = self._heavy if is_heavy else self._http, -(-len(rows) // _ROWS_PER_CREDIT)
        outcomes: list[str | AdapterError]
        try:
            answer = http.send(method, MODULES[kind], *path, body=body, cost=max(1, cost))
            written = [answer.mapping(row.get("details")) for row in answer.items("data")]
            outcomes = [answer.id(details) for details in written]
        except Refused as refused:
            outcomes = list(refused.outcomes)
        except Duplicate as clash:
            # The id of a record of another kind, such as a lead, would name a wrong contact.
            if clash.module not in ("", MODULES[kind]):
                clash.existing_id = ""
                clash.message += f". The other record is in {clash.module}; convert it there."
                clash.args = (clash.message,)
            raise
        if len(outcomes) != len(rows):
            raise Uncertain("Zoho's answer does not tell what became of each record.")
        return outcomes

    def try_write(self, method: str, kind: Kind) -> None:
        """Send a write without a record, to see whether the connection may write this kind."""
        with suppress(Rejected):
            self.send(method, MODULES[kind], body={"data": []}, reads=True)
