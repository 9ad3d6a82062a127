"""Zoho's API for one connection: tokens, limits, COQL queries, writes of rows, and definitions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from adapters.zoho.connecting import EDITIONS, accounts_url
from adapters.zoho.failures import Duplicate, Refused, failure, token_failure
from adapters.zoho.fields import (
    MODULES,
    PLACES,
    Field,
    Fields,
    read_choice,
    read_fields,
)
from crmhub.adapter import (
    AdapterError,
    BadConfig,
    Context,
    Kind,
    Linked,
    NotFound,
    Owner,
    Pipeline,
    Rejected,
    Uncertain,
    Unsupported,
)
from crmhub.adapter.answers import objects_in, text_of, value_at
from crmhub.adapter.http import GENERAL, QUOTA, Answer, Http
from crmhub.adapter.oauth import Grant, refresh_form
from crmhub.adapter.remembered import HOUR, Remembered

T = TypeVar("T")

# Zoho gives 10 access tokens per refresh token in 10 minutes.
_TOKENS, _TOKENS_S, _DAY_S = 10, 600.0, 86_400.0
# Of all calls, only so many may be COQL queries or write more than 10 records at the same time.
_HEAVY_AT_ONCE, _ROWS_PER_CREDIT = 10, 10
# COQL takes 50 values in a list and 50 columns, of which one is the id; 200 records are one credit.
_VALUES, _COLUMNS, _PAGE = 50, 49, 200
_OWNERS = 200
STALE_S = 30.0
"""Definitions of this age in seconds are read again when a call does not fit them."""


class Api:
    """Calls Zoho's API v8 for one connection.

    `title` is the CRM's name in messages.
    """

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
        # Both take leases of the same names, so that together they stay within `at_once`.
        self._heavy = http(at_once=min(at_once, _HEAVY_AT_ONCE))
        self.fields = {
            kind: Remembered(
                partial(self.load_fields, kind), context, name=f"{kind} fields", types=[Field]
            )
            for kind in MODULES
        }
        """The fields of each kind of record, by API name and by the hub's name."""
        self.places = {
            kind: Remembered(partial(self.load_places, kind), context, name=f"places of {kind}")
            for kind in PLACES
        }
        """The pipelines of deals and of tickets, each with the id of its layout, or ""."""
        self.owners = Remembered(self.load_owners, context)
        """The active users."""

    # Credentials and limits.

    def _base_url(self) -> str:
        usual = f"https://www.zohoapis.{self._context.settings['data_centre']}"
        return f"{(self._grant.kept('api_domain') or usual).rstrip('/')}/crm/v8"

    def _exchange(self, credentials: Mapping[str, str]) -> Answer:
        form = refresh_form(credentials)
        return self._login.send("POST", "oauth", "v2", "token", form=form, reads=True)

    @property
    def clock_ahead(self) -> float:
        """By how many seconds Zoho's clock is ahead of this machine's, as its last query says."""
        return self._heavy.clock_ahead

    # Records.

    def record(self, kind: Kind, record_id: str) -> Mapping[str, Any]:
        """Return the record with this id as Zoho's JSON; raises NotFound."""
        answer = self._http.send("GET", MODULES[kind], record_id)
        if answer.status == 204:
            raise NotFound("Zoho has no such record")
        for row in answer.items("data"):
            if answer.id(row) == record_id:
                return row
        raise answer.broken("it is another record")

    def rows(
        self, kind: Kind, names: Sequence[str], by: Sequence[str], values: Sequence[str]
    ) -> list[Mapping[str, Any]]:
        """Return the records with one of `values` in one of the fields `by`, the oldest first.

        `names` are the fields to read; unknown ones are left out. `by` has at most two fields;
        unknown and encrypted ones are ignored. COQL may compare texts in other ways than Python,
        so compare the values of the records.
        """
        return retry_with_fresh(partial(self._rows, kind, names, by, values))

    def _rows(
        self,
        kind: Kind,
        names: Sequence[str],
        by: Sequence[str],
        values: Sequence[str],
        newer_than: float,
    ) -> list[Mapping[str, Any]]:
        fields = self.fields[kind].get(newer_than=newer_than)
        columns = sorted({fields[name].name for name in names if name in fields} - {"id"})
        known = [fields[name] for name in by if name in fields]
        filters = [field.name for field in known if not field.is_encrypted]
        # How COQL reads a backslash is unknown.
        asked = [value for value in values if "\\" not in value]
        found: dict[str, dict[str, Any]] = {}
        for start in range(0, len(asked) if filters else 0, _VALUES):
            quoted = ", ".join(map(_quoted, asked[start : start + _VALUES]))
            where = " or ".join(f"{name} in ({quoted})" for name in filters)
            for column in range(0, max(1, len(columns)), _COLUMNS):
                chosen = ", ".join(["id", *columns[column : column + _COLUMNS]])
                query = f"select {chosen} from {MODULES[kind]} where ({where}) order by id asc"
                for record_id, row in self._query(query):
                    found.setdefault(record_id, {}).update(row)
        return [found[record_id] for record_id in sorted(found, key=int)]

    def _query(self, query: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
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

        `method` is POST to create and PUT to update; `path` is the id of a single record to update.
        The error of a single record is raised, and so is one of the whole call.
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

    def try_read(self, kind: Kind) -> None:
        """Look for a record that does not exist, to see whether the connection may read a kind."""
        list(self._query(f"select id from {MODULES[kind]} where id in ('1') order by id asc"))

    def try_write(self, method: str, kind: Kind) -> None:
        """Send a write without a record, to see whether the connection may write this kind."""
        with suppress(Rejected):
            self._http.send(method, MODULES[kind], body={"data": []}, reads=True)

    # Definitions.

    def link(self, kind: Linked) -> Field:
        """Return the field that links a deal or case to its contact.

        Raises Unsupported if the account has no such field.
        """
        fields = self.fields[kind].get()
        links = [
            field
            for field in fields.values()
            if value_at(field.raw, "lookup", "module", "api_name") == MODULES["contacts"]
        ]
        usual = [field for field in links if field.name in ("Contact_Name", "Related_To")]
        if not links:
            raise Unsupported(f"{MODULES[kind]} have no field for a contact in this Zoho account.")
        return (usual or links)[0]

    def load_fields(self, kind: Kind) -> Fields:
        """Read the fields of a kind of record from Zoho.

        Raises Unsupported for tickets if the account has no cases.
        """
        params = {"module": MODULES[kind], "include": "allowed_permissions_to_update"}
        try:
            answer = self._http.send("GET", "settings", "fields", params=params)
        except BadConfig as exc:
            if kind != "tickets" or "INVALID_MODULE" not in exc.message:
                raise
            raise Unsupported("This edition of Zoho CRM has no cases.") from None
        return read_fields(kind, answer)

    def load_places(self, kind: Linked) -> list[tuple[Pipeline, str]]:
        """Read the pipelines from Zoho, each with the id of its layout, or ""."""
        found: dict[str, tuple[Pipeline, str]] = {}
        layouts = []
        if kind == "deals":
            params = {"module": MODULES[kind]}
            answer = self._http.send("GET", "settings", "layouts", params=params)
            active = [one for one in answer.items("layouts") if one.get("status") != "inactive"]
            layouts = [answer.id(layout) for layout in active]
        for layout in layouts:
            answer = self._http.send("GET", "settings", "pipeline", params={"layout_id": layout})
            listed = [] if answer.status == 204 else answer.items("pipeline")
            for raw in sorted(listed, key=lambda raw: raw.get("default") is not True):
                choice = read_choice(raw)
                stages = tuple(filter(None, map(read_choice, objects_in(raw.get("maps")))))
                if choice is None:
                    raise answer.broken("a pipeline has no name")
                pipeline = Pipeline(choice.value, choice.label, stages)
                # Records name their pipeline by its text, so the first of two equal ones counts.
                found.setdefault(pipeline.id, (pipeline, layout))
        if found:
            return list(found.values())
        stage = self.fields[kind].get().get(PLACES[kind][1])
        return [(Pipeline("", "", stage.described.options if stage else ()), "")]

    def load_owners(self) -> list[Owner]:
        """Read the active users from Zoho."""
        owners: list[Owner] = []
        page, more = 1, True
        while more:
            params = {"type": "ActiveUsers", "page": str(page), "per_page": str(_OWNERS)}
            answer = self._http.send("GET", "users", params=params)
            if answer.status == 204:
                break
            for user in answer.items("users"):
                name, email = text_of(user.get("full_name")), text_of(user.get("email"))
                owners.append(Owner(answer.id(user), email, name))
            page, more = page + 1, value_at(answer.body, "info", "more_records") is True
        return owners


def retry_with_fresh(call: Callable[[float], T]) -> T:
    """Return the result of `call`, made again with newer definitions if it raises Rejected.

    `call` gets the greatest age of definitions in seconds; fields may have changed since.
    """
    try:
        return call(HOUR)
    except Rejected:
        return call(STALE_S)


def _quoted(value: str) -> str:
    doubled = value.replace("'", "''")
    return f"'{doubled}'"
