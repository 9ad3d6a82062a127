"""A Zoho CRM in memory: its endpoints, its records, its tokens and its limits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, ClassVar, TypeVar

from adapters.fakes import control, fake
from adapters.fakes.answers import Answer, Refused
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.faults import Fault
from adapters.fakes.limits import AtOnce, Window, parse, retry_header
from adapters.fakes.records import Record, now_ms
from adapters.fakes.server import Received
from adapters.fakes.store import Store
from adapters.fakes.tokens import BadGrant, Tokens
from adapters.fakes.zoho import coql
from adapters.fakes.zoho.failing import Row, answered, at, fault, listed, refused, together
from adapters.fakes.zoho.notifications import Channels
from adapters.fakes.zoho.schema import LAYOUTS, USERS, Column, id_of, modules, pipelines

_T = TypeVar("_T")
_OF_ADDED = ("READ", "CREATE")
SCOPES = frozenset(
    {
        *(
            f"ZohoCRM.modules.{of}.{right}"
            for of in ("contacts", "deals", "cases", "accounts")
            for right in ("READ", "CREATE", "UPDATE", "DELETE")
        ),
        *(f"ZohoCRM.settings.{of}.READ" for of in ("fields", "layouts", "pipeline")),
        *(f"ZohoCRM.modules.{of}.{right}" for of in ("notes", "tasks") for right in _OF_ADDED),
        *("ZohoCRM.coql.READ", "ZohoCRM.users.READ", "ZohoCRM.notifications.ALL"),
    }
)
"""All scopes that an app may ask for."""
_RIGHTS = {"GET": "READ", "POST": "CREATE", "PUT": "UPDATE", "DELETE": "DELETE"}
_QUERIED = re.compile(r"from\s+([A-Za-z_]+)", re.IGNORECASE)
_TOKENS, _TOKENS_S, _DAY_S = 10, 600.0, 86_400.0
_MOST_ROWS, _ROWS_PER_CREDIT = 100, 10
# The time zone of the account, in which all times are shown.
_ZONE = timezone(timedelta(hours=1))


@dataclass(kw_only=True)
class Options(fake.Options):
    """The options of the fake Zoho CRM.

    `limit` are the credits, and `at_once` the calls at the same time; None for no limit. Of an
    account: `unique_email` (no email twice, also not of a lead), `mark` (the name of a custom field
    for marks, "" for none), `mark_is_unique`, `encrypted_email`, `has_cases`, `demanded` (fields
    that layouts require of a new record). Where Zoho's behaviour is unknown: `exact_case` (COQL
    distinguishes upper and lower case), `absent_is_204` (a missing record is an empty 204 instead
    of a 400), `unchanged_is_304` (no deletions since a time are a 304 instead of a 204),
    `drops_null` (COQL leaves out fields without a value).
    """

    limit: str = "50000/86400s"
    at_once: int | None = 10
    expires_in: float = 3_600
    unique_email: bool = False
    encrypted_email: bool = False
    mark: str = ""
    mark_is_unique: bool = True
    has_cases: bool = True
    demanded: frozenset[str] = frozenset()
    exact_case: bool = False
    absent_is_204: bool = True
    unchanged_is_304: bool = True
    drops_null: bool = True


class FakeZoho(fake.Fake):
    """A fake Zoho CRM on its own port, which serves logins and API.

    `columns` are the fields by module. `leads` are the emails of leads, a kind of record that the
    hub does not know. `locked` are the ids of locked records.
    """

    kinds: ClassVar = {
        "contacts": "Contacts",
        "deals": "Deals",
        "tickets": "Cases",
        "companies": "Accounts",
    }
    names: ClassVar = {
        "contacts": {
            "First_Name": "firstname",
            "Last_Name": "lastname",
            "Email": "email",
            "Phone": "phone",
            "Mobile": "mobilephone",
        },
        "deals": {
            "Deal_Name": "dealname",
            "Amount": "amount",
            "Pipeline": "pipeline",
            "Stage": "dealstage",
            "Owner": "hubspot_owner_id",
            "Closing_Date": "closedate",
            "Description": "description",
        },
        "tickets": {
            "Subject": "subject",
            "Description": "content",
            "Status": "hs_pipeline_stage",
            "Priority": "hs_ticket_priority",
        },
        "companies": {"Account_Name": "name", "Phone": "phone"},
    }
    token_paths = ("/oauth/v2/token",)
    settings: ClassVar = control.SETTINGS | control.TOKEN_SETTINGS | control.AT_ONCE_SETTINGS
    options: Options
    tokens: Tokens

    def __init__(self, options: Options | None = None) -> None:
        super().__init__(options or Options())

    def reset(self) -> None:
        """Discard all records and tokens, and start again with the original options."""
        with self.lock:
            super().reset()
            options = self.options
            self.credits = Window("limit", *parse(options.limit, usual=_DAY_S))
            self.token_requests = Window("token_limit", _TOKENS, _TOKENS_S)
            self.windows = {"limit": self.credits, "token_limit": self.token_requests}
            self.at_once = AtOnce(options.at_once)
            self.tokens = Tokens(
                client_id="1000.FAKEZOHOCLIENT",
                client_secret="fake-zoho-client-secret",
                refresh_token="1000.fake-zoho-refresh-token",
                prefix="1000.",
                expires_in=options.expires_in,
                most_live=15,
                scopes=SCOPES,
                known_scopes=SCOPES,
            )
            page, client_id = "/oauth/v2/auth", self.tokens.client_id
            self.authorizations = Authorizations(
                "Zoho", client_id, page, known_scopes=SCOPES, separator=","
            )
            self.columns = modules(
                unique_email=options.unique_email,
                encrypted_email=options.encrypted_email,
                mark=options.mark,
                mark_is_unique=options.mark_is_unique,
            )
            self.store = Store(self.columns, first=1_001, id_of=lambda _, n: id_of(n))
            self.channels = Channels()
            self.store.on_change = self._tell
            if not options.has_cases:
                del self.columns["Cases"]
            self.leads: dict[str, str] = {}
            self.locked: set[str] = set()

    # Limits, tokens and rights.

    def costs(self, received: Received) -> list[tuple[Window, int]]:
        if received.path in self.token_paths:
            return [(self.token_requests, 1)]
        body = _body(received)
        if received.path.endswith("/coql"):
            return [(self.credits, coql.cost(str(body.get("select_query"))))]
        rows = body.get("data")
        cost = -(-len(rows) // _ROWS_PER_CREDIT) if isinstance(rows, list) else 1
        return [(self.credits, max(1, cost))]

    def over(self, limit: Window | AtOnce, wait: float) -> Refused:
        headers = retry_header(wait, self.retry_after)
        if limit is self.token_requests:
            description = "You have made too many requests continuously. Please try again later."
            body = {"error": "Access Denied", "error_description": description, "status": "failure"}
            return Refused(400, body, headers=headers)
        body = fault("TOO_MANY_REQUESTS", "You have reached the limit of API calls")
        return Refused(429, body, headers=headers)

    def admit(self, received: Received) -> None:
        scheme, _, token = received.headers.get("Authorization", "").partition(" ")
        if scheme != "Zoho-oauthtoken":
            raise refused(401, "AUTHENTICATION_FAILURE", "Authentication failed")
        if self.tokens.state(token) != "valid":
            raise refused(401, "INVALID_TOKEN", "invalid oauth token")
        if not _scopes(received) & SCOPES <= self.tokens.scopes:
            message = "invalid oauth scope to access this URL"
            raise refused(401, "OAUTH_SCOPE_MISMATCH", message)

    def decorate(self, received: Received, answer: Answer) -> None:
        left = self.credits.remaining()
        if self.credits.most and left * 2 < self.credits.most:
            answer.headers["X-API-CREDITS-REMAINING"] = str(left)

    def error(self, status: int, fault_: Fault) -> Answer:
        if status == 401:
            return Answer(401, fault("INVALID_TOKEN", "invalid oauth token"))
        code = {429: "TOO_MANY_REQUESTS", 503: "SERVICE_UNAVAILABLE"}.get(status, "INTERNAL_ERROR")
        return Answer(status, fault(code, "Internal Server Error"))

    def grant(self, received: Received) -> Answer:
        try:
            token = self.new_token(received.form)
        except BadGrant as exc:
            # Zoho refuses with status 200.
            error = "invalid_code" if exc.error == "invalid_grant" else exc.error
            return Answer(200, {"error": error})
        body = {
            "access_token": token,
            "api_domain": self.url,
            "token_type": "Bearer",
            "expires_in": int(self.tokens.expires_in),
        }
        if received.form["grant_type"] == "authorization_code":
            body["refresh_token"] = self.tokens.refresh_token
        return Answer(200, body)

    # Endpoints.

    def handle(self, received: Received) -> Answer:
        query, body = received.parameters, _body(received)
        match received.method, received.parts:
            case "POST", ["crm", "v8", "coql"]:
                return self._query(body)
            case "GET", ["crm", "v8", "settings", "fields"]:
                columns = self.columns[self._module(query.get("module", ""))]
                listed_ = enumerate(columns.items(), 500)
                return Answer(200, {"fields": [one.definition(n, i) for i, (n, one) in listed_]})
            case "GET", ["crm", "v8", "settings", "layouts"]:
                self._module(query.get("module", ""))
                rows = [{"id": i, "name": one, "status": of} for i, (one, of, _) in LAYOUTS.items()]
                return Answer(200, {"layouts": rows})
            case "GET", ["crm", "v8", "settings", "pipeline"]:
                if query.get("layout_id") not in LAYOUTS:
                    message = "invalid layout id"
                    raise refused(400, "INVALID_DATA", message, param_name="layout_id")
                return Answer(200, {"pipeline": list(pipelines(query["layout_id"]))})
            case "GET", ["crm", "v8", "users"]:
                return self._users(query)
            case "GET", ["crm", "v8", "actions", "watch"]:
                _check_names(query, "page", "per_page", "channel_id", "module")
                return self.channels.listed(query.get("channel_id", ""))
            case ("POST" | "PUT") as method, ["crm", "v8", "actions", "watch"]:
                return self.channels.enable(body, self.columns, anew=method == "POST")
            case "DELETE", ["crm", "v8", "actions", "watch"]:
                return self.channels.disable(query.get("channel_ids", ""))
            case "GET", ["crm", "v8", module, "search"]:
                return self._search(self._module(module), query)
            case "GET", ["crm", "v8", module, "deleted"]:
                since = received.headers.get("If-Modified-Since", "")
                return self._deleted(self._module(module), query, since)
            case "GET", ["crm", "v8", module, id_, "Notes"]:
                _check_names(query, "fields", "page", "per_page")
                return self._notes(self._module(module), id_, query)
            case "DELETE", ["crm", "v8", module, id_]:
                _check_names(query, "wf_trigger")
                return self._delete(self._module(module), id_)
            case "GET", ["crm", "v8", module, id_]:
                return self._read(self._module(module), id_)
            case "POST", ["crm", "v8", module]:
                return self._write(self._module(module), body, "")
            case "PUT", ["crm", "v8", module, *path] if len(path) < 2:
                return self._write(self._module(module), body, *(path or ["*"]))
        raise refused(404, "INVALID_URL_PATTERN", "Please check if the URL is correct")

    def _module(self, name: str) -> str:
        if name not in self.columns:
            raise refused(400, "INVALID_MODULE", "the module name given seems to be invalid")
        return name

    def _query(self, body: Mapping[str, Any]) -> Answer:
        text = body.get("select_query")
        if not isinstance(text, str):
            raise refused(400, "MANDATORY_NOT_FOUND", "required", api_name="select_query")
        query = coql.parse(text, self.columns, exact_case=self.options.exact_case)
        rows = [self._shown(record) for record in self.store.records[query.module].values()]
        rows = [row for row in rows if query.test(row)]
        rows.sort(key=lambda row: str(row.get(query.order)), reverse=query.descending)
        page = rows[query.offset : query.offset + query.limit]
        if not page:
            return Answer(204)
        names = dict.fromkeys([*query.columns, "id"])
        data = [{name: _in_coql(row.get(name)) for name in names} for row in page]
        if self.options.drops_null:
            data = [{n: v for n, v in row.items() if v is not None} for row in data]
        more = query.offset + query.limit < len(rows)
        return Answer(200, {"data": data, "info": {"count": len(page), "more_records": more}})

    def _users(self, query: Mapping[str, str]) -> Answer:
        users, info = _page(USERS, query)
        return Answer(200, {"users": users, "info": info})

    def _search(self, module: str, query: Mapping[str, str]) -> Answer:
        """Search the index, which lags, for records of which a field has a part of the text."""
        text = (query.get("email") or query.get("phone") or "").lower()
        found = [
            {"id": record.id, **seen}
            for record in self.store.records[module].values()
            if text and (seen := record.searchable(self.search_lag))
            if any(text in value.lower() for value in seen.values() if isinstance(value, str))
        ]
        return Answer(200, {"data": found}) if found else Answer(204)

    def _read(self, module: str, id_: str) -> Answer:
        record = self.store.records[module].get(id_)
        if record:
            return Answer(200, {"data": [self._shown(record)]})
        if id_.isdecimal() and self.options.absent_is_204:
            return Answer(204)
        message = "the id given seems to be invalid"
        raise listed(400, "INVALID_DATA", message, resource_path_index=1)

    def _deleted(self, module: str, query: Mapping[str, str], since: str) -> Answer:
        """Return a page of the deleted records, the last ones first."""
        _check_names(query, "type", "page", "per_page")
        if query.get("type", "all") not in ("all", "recycle", "permanent"):
            raise refused(400, "INVALID_DATA", "invalid type", param_name="type")
        if not (1 <= int(query.get("per_page", 200)) <= 200 and int(query.get("page", 1)) >= 1):
            raise refused(400, "INVALID_DATA", "invalid page", param_name="per_page")
        records = list(reversed(self.store.deleted[module].values()))
        if query.get("type") == "permanent":
            records = []
        if since:
            at_ms = datetime.fromisoformat(since).timestamp() * 1000
            records = [record for record in records if record.updated_at >= at_ms]
        shown, info = _page(records, query)
        if not shown:
            return Answer(304 if since and self.options.unchanged_is_304 else 204)
        rows = [
            {
                "id": record.id,
                "display_name": "Somebody",
                "type": "recycle",
                "deleted_time": _time_of(record.updated_at),
                "deleted_by": _reference(),
                "created_by": _reference(),
            }
            for record in shown
        ]
        return Answer(200, {"data": rows, "info": info})

    def _notes(self, module: str, id_: str, query: Mapping[str, str]) -> Answer:
        """Return a page of the notes of a record."""
        if "fields" not in query:
            raise refused(400, "REQUIRED_PARAM_MISSING", "required", param_name="fields")
        if id_ not in self.store.records[module]:
            raise listed(400, "INVALID_DATA", "invalid id", id=id_, resource_path_index=1)
        notes = self.store.records["Notes"].values()
        of = [one for one in notes if one.properties["Parent_Id"]["id"] == id_]
        shown, info = _page(of, query)
        names = ["id", *query["fields"].split(",")]
        if not shown:
            return Answer(204)
        rows = [{name: self._shown(one).get(name) for name in names} for one in shown]
        return Answer(200, {"data": rows, "info": info})

    def _delete(self, module: str, id_: str) -> Answer:
        record = self.store.records[module].get(id_)
        if record is None:
            message = "the id given seems to be invalid"
            raise listed(400, "INVALID_DATA", message, id=id_, resource_path_index=1)
        self._remove(record)
        details = {"id": id_}
        row = {"code": "SUCCESS", "details": details, "message": "record deleted"}
        return Answer(200, {"data": [{**row, "status": "success"}]})

    def _remove(self, record: Record) -> None:
        record.write(record.properties, now_ms())
        self.store.delete(record)

    def _tell(self, action: str, record: Record) -> None:
        self.channels.tell("edit" if action == "change" else action, record.kind, record.id)

    def delete(self, kind: str, id_: str) -> None:
        with self.lock:
            self._remove(self.load(self.own_kind(kind), id_))

    def _shown(self, record: Record) -> dict[str, Any]:
        """Return a record as the API shows it: all fields, with null for those without a value."""
        columns, held = self.columns[record.kind], record.properties
        values = {name: _value(column, held.get(name)) for name, column in columns.items()}
        if record.kind == "Contacts":
            names = (held.get(name) for name in ("First_Name", "Last_Name"))
            values["Full_Name"] = " ".join(filter(None, names))
        times = {"Created_Time": record.created_at, "Modified_Time": record.updated_at}
        return values | {name: _time_of(at_) for name, at_ in times.items()} | {"id": record.id}

    # Writes.

    def _write(self, module: str, body: Mapping[str, Any], id_: str) -> Answer:
        """Create or update records; `id_` is "" for new ones, and "*" if each row has its id."""
        rows = body.get("data")
        if not isinstance(rows, list) or not 0 < len(rows) <= _MOST_ROWS:
            details = {"expected_data_type": "jsonarray", "api_name": "data"}
            raise listed(400, "INVALID_DATA", "the body needs 1 to 100 records", **details)
        if id_ and id_ != "*":
            rows = [{**row, "id": id_} for row in rows[:1]]
        write = self._update if id_ else self._create
        outcomes = [write(module, row, i) for i, row in enumerate(rows)]
        return answered(outcomes, 200 if id_ else 201)

    def _create(self, module: str, row: Mapping[str, Any], index: int) -> Row:
        values = self._writable(module, row)
        given = {name: value for name, value in values.items() if value is not None}
        wrong = [*self._faults(module, given, index), *self._missing(module, given, index)]
        wrong += self._duplicates(module, given, index)
        if module == "Deals" and not wrong:
            layout = _layout(row)
            wrong += _misplaced(given, layout, index)
            given.setdefault("Pipeline", _default_pipeline(layout))
        return together(wrong) if wrong else _success(self._insert(module, given), "record added")

    def _update(self, module: str, row: Mapping[str, Any], index: int) -> Row:
        record = self.store.records[module].get(str(row.get("id")))
        if record is None:
            return fault("INVALID_DATA", "the id given seems to be invalid", **at(index, "id"))
        if record.id in self.locked:
            return fault("RECORD_LOCKED", "the record is locked")
        values = self._writable(module, row, update=True)
        wrong = [*self._faults(module, values, index)]
        if wrong := wrong + self._duplicates(module, values, index, record):
            return together(wrong)
        self.store.update(record, values)
        return _success(record, "record updated")

    def _writable(
        self, module: str, row: Mapping[str, Any], *, update: bool = False
    ) -> dict[str, Any]:
        """Return the values of a row that Zoho looks at; it ignores all others silently.

        Ignored are unknown names, also of wrong case, and fields that the API may not write.
        """
        columns = {n: one for n, one in self.columns[module].items() if not one.read_only}
        writable = {n for n, one in columns.items() if not (update and one.create_only)}
        return {name: value for name, value in row.items() if name in writable}

    def _faults(self, module: str, values: Mapping[str, Any], index: int) -> Iterator[Row]:
        """Yield an error for each value of row `index` that does not fit its field."""
        for name, value in values.items():
            column = self.columns[module][name]
            if value is None:
                if column.required:
                    yield _lacking(index, name)
            elif wrong := column.fault(value):
                yield fault("INVALID_DATA", "invalid data", **at(index, name), **wrong)
            elif name == "Parent_Id" and not self._exists(value["module"]["api_name"], value["id"]):
                yield fault("INVALID_DATA", "invalid data", **at(index, name, ".id"))
            elif column.to and not self._exists(column.to, value["id"]):
                message = "the id given seems to be invalid"
                yield fault("INVALID_DATA", message, **at(index, name, ".id"))

    def _missing(self, module: str, values: Mapping[str, Any], index: int) -> Iterator[Row]:
        for name, column in self.columns[module].items():
            needed = column.required or name in self.options.demanded
            if needed and name not in values:
                yield _lacking(index, name)

    def _duplicates(
        self, module: str, values: Mapping[str, Any], index: int, own: Record | None = None
    ) -> list[Row]:
        held = self.store.holders(module, values, own=own)
        holders = {name: (record.id, module) for name, record in held.items()}
        email = str(values.get("Email", "")).casefold()
        if self.columns[module].get("Email", Column()).unique and email in self.leads:
            holders.setdefault("Email", (self.leads[email], "Leads"))
        return [_duplicate(index, name, *holder) for name, holder in holders.items()]

    def _exists(self, module: str, id_: str) -> bool:
        if module == "users":
            return any(user["id"] == id_ for user in USERS)
        return id_ in self.store.records[module]

    def _insert(self, module: str, values: Mapping[str, Any]) -> Record:
        # A record without an owner gets the user of the connection.
        return self.store.insert(module, {"Owner": {"id": USERS[0]["id"]}, **values})

    # Records, under Zoho's names.

    def create(self, kind: str, values: Mapping[str, Any]) -> Record:
        """Create a record without looking at its values; raise Refused for a duplicate."""
        if wrong := self._duplicates(kind, values, 0):
            raise Refused(400, {"data": wrong})
        return self._insert(kind, values)

    def link(self, id_: str) -> dict[str, str]:
        return {"id": id_}


def _body(received: Received) -> dict[str, Any]:
    """Return the JSON object of a body, {} for anything else; raise Refused for broken JSON."""
    try:
        body = received.json
    except ValueError:
        raise refused(400, "INVALID_DATA", "the body is no JSON") from None
    return body if isinstance(body, dict) else {}


def _check_names(query: Mapping[str, str], *names: str) -> None:
    if unknown := sorted(query.keys() - {*names}):
        raise refused(400, "INVALID_DATA", "unknown parameter", param_name=unknown[0])


def _scopes(received: Received) -> set[str]:
    """Return the scopes that a call needs, also such as there are none."""
    match received.parts[2:]:
        case ["coql"]:
            module = _QUERIED.search(str(_body(received).get("select_query")))
            of = module[1].lower() if module else "contacts"
            return {"ZohoCRM.coql.READ", f"ZohoCRM.modules.{of}.READ"}
        case ["settings", of]:
            return {f"ZohoCRM.settings.{of}.READ"}
        case ["actions", "watch"]:
            return {"ZohoCRM.notifications.ALL"}
        case ["users"]:
            return {"ZohoCRM.users.READ"}
        case [module, _, "Notes"]:
            return {"ZohoCRM.modules.notes.READ", f"ZohoCRM.modules.{module.lower()}.READ"}
        case [module, *_]:
            return {f"ZohoCRM.modules.{module.lower()}.{_RIGHTS.get(received.method, '')}"}
    return set()


def _lacking(index: int, name: str) -> Row:
    return fault("MANDATORY_NOT_FOUND", "required field not found", **at(index, name))


def _duplicate(index: int, name: str, id_: str, module: str) -> Row:
    of = {"api_name": module, "id": id_of(50)}
    duplicate = {"id": id_, "Owner": _reference(), "module": of}
    details = {**at(index, name), "duplicate_record": duplicate, "more_records": False}
    return fault("DUPLICATE_DATA", "duplicate data", **details)


def _success(record: Record, message: str) -> Row:
    details = {
        "id": record.id,
        "Created_Time": _time_of(record.created_at),
        "Modified_Time": _time_of(record.updated_at),
        "Created_By": _reference(),
        "Modified_By": _reference(),
        "$approval_state": "approved",
    }
    return {"code": "SUCCESS", "details": details, "message": message, "status": "success"}


def _page(rows: Sequence[_T], query: Mapping[str, str]) -> tuple[Sequence[_T], dict[str, Any]]:
    """Return the rows of the page that a query names, and its `info`."""
    size, page = int(query.get("per_page", 200)), int(query.get("page", 1))
    shown, more = rows[size * (page - 1) : size * page], size * page < len(rows)
    return shown, {"per_page": size, "count": len(shown), "page": page, "more_records": more}


def _reference() -> dict[str, str]:
    """Return the user of the connection as records refer to it."""
    return {"name": USERS[0]["full_name"], "id": USERS[0]["id"]}


def _layout(row: Mapping[str, Any]) -> str:
    given = row.get("Layout")
    layout = str(given.get("id")) if isinstance(given, dict) else ""
    return layout if layout in LAYOUTS else next(iter(LAYOUTS))


def _default_pipeline(layout: str) -> str:
    return next(pipe.name for pipe in LAYOUTS[layout][2] if pipe.default)


def _misplaced(values: Mapping[str, Any], layout: str, index: int) -> Iterator[Row]:
    """Yield an error for a pipeline that its layout lacks, or a stage that the pipeline lacks."""
    pipelines = {pipe.name: pipe for pipe in LAYOUTS[layout][2]}
    name, stage = values.get("Pipeline", _default_pipeline(layout)), values.get("Stage")
    if name not in pipelines:
        message = "The layout doesn't contain the pipeline"
        yield fault("MAPPING_MISMATCH", message, **at(index, "Pipeline"))
    elif stage is not None and stage not in pipelines[name].stages:
        message = "Pipeline doesn't contain the Stage"
        yield fault("MAPPING_MISMATCH", message, **at(index, "Stage"))


def _in_coql(value: Any) -> Any:
    """Return a value as COQL shows it: a link has no name there."""
    return {"id": value["id"]} if isinstance(value, dict) else value


def _value(column: Column, value: Any) -> Any:
    if value is None:
        return None
    if column.type == "datetime":
        return datetime.fromisoformat(value).astimezone(_ZONE).isoformat(timespec="seconds")
    if column.to:
        return {"id": value["id"], "name": "Somebody"}
    return float(value) if column.json_type == "double" else value


def _time_of(ms: int) -> str:
    """Return a time in ms since 1970 as Zoho writes it, in whole seconds."""
    at_ = datetime.fromtimestamp(ms // 1000, UTC)
    return at_.astimezone(_ZONE).isoformat(timespec="seconds")
