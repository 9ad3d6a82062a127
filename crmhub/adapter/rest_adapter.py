"""The base class of adapters whose CRM has an address for each kind of record, and JSON bodies.

What differs between such CRMs are class attributes; a hook that differs more is overridden.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from crmhub.adapter.context import Context
from crmhub.adapter.contract import has_oauth
from crmhub.adapter.creates import Create
from crmhub.adapter.errors import AdapterError, NotFound, Problem, Unavailable
from crmhub.adapter.http import Answer, Http, Limit
from crmhub.adapter.oauth import Exchange, Grant, refreshing, token_or_oauth
from crmhub.adapter.phones import notations
from crmhub.adapter.table_adapter import TableAdapter
from crmhub.adapter.tables import Row, Write, id_in_json
from crmhub.adapter.values import OAUTH_SECRETS, Kind, Saved


class RestAdapter(TableAdapter):
    """Needs the setting `base_url`, and a secret with a token or the secrets of `oauth`."""

    token_name: ClassVar[str] = "token"
    """The secret with a token that people enter; "" if the CRM has OAuth alone."""
    token_keeps: ClassVar[Sequence[str]] = ()
    """Further fields of the token endpoint's answer to store, for `self.grant.kept`."""
    limits: Sequence[Limit] = (Limit(100, 10.0),)
    """Where the settings decide, the constructor sets them before it calls the base's."""
    at_once: int = 0
    """The most simultaneous requests; 0 for no such limit. Settings may decide it, too."""
    token_limit: ClassVar[Limit] = Limit(100, 10.0, key="oauth")
    """The rate limit of the token endpoint of `oauth`."""
    correlation_header: ClassVar[str] = "X-Request-Id"
    address: ClassVar[str] = "address"
    """The settings that decide the address of a list, in words for people."""
    prefix: ClassVar[tuple[str, ...]] = ()
    """The segments with which every path begins, after the address."""
    list_in: ClassVar[str] = "results"
    """The member of an answer that holds a list of records."""
    list_statuses: ClassVar[Sequence[int]] = (200,)
    """The statuses that answer for a list; one other than 200 has no records for `rows`."""
    record_in: ClassVar[str] = ""
    """The member of an answer that holds a single record; "" for the answer itself."""
    values_in: ClassVar[str] = ""
    """The member of a record that holds its values; "" for the record itself."""
    update_method: ClassVar[str] = "PATCH"
    mark_name: str = ""
    """The member of a record that holds the hub's mark, if every account has it."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        oauth = self.oauth(context.settings)
        exchange: Exchange = dict
        if oauth:
            failure, limit = self.token_failure, self.token_limit
            exchange = refreshing(context, self.title, oauth, failure=failure, limit=limit)
        self.grant = Grant(
            context, self.title, exchange, keeps=self.token_keeps, token=self.token_name
        )
        self.http = self.client(at_once=self.at_once)

    def client(self, *, at_once: int) -> Http:
        """Return a client for the CRM's API; a second one is for calls with a limit of their own.

        All share places, so that together they stay within the largest `at_once`.
        """
        return Http(
            self.context,
            self.base_url,
            crm=self.title,
            authorize=self.authorize,
            renew=self.grant.renew,
            failure=self.failure,
            limits=self.limits,
            at_once=at_once,
            secrets=self.grant.secrets,
            correlation_header=self.correlation_header,
        )

    @classmethod
    def clash(cls, settings: Mapping[str, str], credentials: Mapping[str, str]) -> Problem | str:
        if not has_oauth(cls):
            return ""
        if cls.token_name:
            return token_or_oauth(credentials, cls.token_name)
        missing = next((name for name in OAUTH_SECRETS if not credentials[name]), "")
        words = "Press Connect, or enter all three OAuth fields."
        return Problem(missing, words) if missing else ""

    # Hooks.

    def base_url(self) -> str:
        return self.context.settings["base_url"]

    def authorize(self) -> Mapping[str, str]:
        """Return the headers by which a request signs in."""
        return {"Authorization": f"Bearer {self.grant.token()}"}

    @staticmethod
    def failure(answer: Answer) -> AdapterError | None:
        """Return the error that an answer reports in the CRM's own way; see `http.Failure`."""
        return None

    @staticmethod
    def token_failure(answer: Answer) -> AdapterError | None:
        """The same for an answer of the token endpoint."""
        return None

    def next_page(self, answer: Answer, params: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the parameters of a list's next page; None after the last one."""
        return None

    # The hooks of `TableAdapter`, as most such CRMs need them.

    def find(self, by: str, values: Sequence[str], names: Sequence[str]) -> Iterator[Row]:
        records = self.kinds["contacts"]
        forms = values if by == "email" else [form for one in values for form in notations(one)]
        return self.rows(records.path, params={records.theirs(by): list(forms)})

    def read(self, contact_id: str, names: Sequence[str]) -> Row:
        return self.record("contacts", self.call("GET", self.kinds["contacts"].path, contact_id))

    def before_write(self, write: Write) -> None:
        if write.record_id:
            return
        if self.mark_name and write.mark:
            write.values.setdefault(self.mark_name, write.mark)
        if (link := self.kinds[write.kind].link) and write.contact:
            write.values[link] = id_in_json(write.contact["id"])

    def send(self, write: Write) -> Row:
        method, path = "POST", [self.kinds[write.kind].path]
        if write.record_id:
            method, path = self.update_method, [*path, write.record_id]
        body = {self.values_in: write.values} if self.values_in else write.values
        return self.record(write.kind, self.call(method, *path, body=body))

    def marked(self, create: Create) -> Saved | None:
        """Return the record with the mark, for a CRM whose lists can be filtered by `mark_name`."""
        params = {self.mark_name: create.mark}
        for row in self.rows(self.kinds[create.kind].path, params=params):
            if row.get(self.mark_name) == create.mark:
                return self.saved(create.kind, row, "created")
        return None

    # Calls.

    def call(self, method: str, *path: str, **options: Any) -> Answer:
        """`path`: its segments after `prefix`; `options`: those of `Http.send`."""
        return self.http.send(method, *self.prefix, *path, **options)

    def listed(self, method: str, *path: str, **options: Any) -> Answer:
        """Read a whole list; a 404 blames the address, not the list."""
        try:
            answer = self.call(method, *path, reads=True, **options)
        except NotFound:
            raise Unavailable(
                f"{self.title} has no such list; the connection's {self.address} may be wrong."
            ) from None
        if answer.status not in self.list_statuses:
            raise answer.broken("a whole list was expected")
        return answer

    def rows(self, *path: str, params: Mapping[str, Any] = {}, **options: Any) -> Iterator[Row]:
        """Yield the records of a list, page by page."""
        items = self.items(*path, params=params, **options)
        return (self.row(answer, item) for answer, item in items)

    def items(
        self, *path: str, params: Mapping[str, Any] = {}, list_in: str = "", **options: Any
    ) -> Iterator[tuple[Answer, Mapping[str, Any]]]:
        """Yield the items of a list that may have no ids, each with the answer that contains it."""
        asked: Mapping[str, Any] | None = params
        while asked is not None:
            answer = self.listed("GET", *path, params=asked or None, **options)
            items = answer.items(list_in or self.list_in) if answer.status == 200 else []
            yield from ((answer, item) for item in items)
            asked = self.next_page(answer, asked) if answer.status == 200 else None

    def record(self, kind: Kind, answer: Answer) -> Row:
        """Return the only record of an answer."""
        name = self.kinds[kind].record_in
        return self.row(answer, answer.mapping(answer.object().get(name)) if name else None)

    def row(self, answer: Answer, item: Mapping[str, Any] | None = None) -> Row:
        """Return a record of an answer, by default its only one, with its id and its values."""
        if item is None:
            item = answer.object()
            item = answer.mapping(item.get(self.record_in)) if self.record_in else item
        values = answer.mapping(item.get(self.values_in)) if self.values_in else item
        return {**values, "id": answer.id(item)}
