"""A Zoho CRM in memory: its endpoints, its records, its tokens and its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from adapters.fakes import control, fake
from adapters.fakes.answers import Answer, Refused
from adapters.fakes.authorizing import Authorizations
from adapters.fakes.faults import Fault
from adapters.fakes.limits import AtOnce, Window, parse, retry_header
from adapters.fakes.records import Record, now_ms
from adapters.fakes.server import Received
from adapters.fakes.tokens import BadGrant, Tokens
from adapters.fakes.zoho import coql, rules, telling
from adapters.fakes.zoho.failing import Row, answered, at, fault, listed, refused, together
from adapters.fakes.zoho.options import Options
from adapters.fakes.zoho.rights import SCOPES, needed, parsed
from adapters.fakes.zoho.schema import LAYOUTS, MODULES, id_of, modules
from adapters.fakes.zoho.shown import in_coql, shown, time_of
from adapters.fakes.zoho.telling import USERS, reference

API = ("crm", "v8")
_AUTHORIZE, _TOKEN = "/oauth/v2/auth", "/oauth/v2/token"
_TOKENS, _TOKENS_S, _DAY_S = 10, 600.0, 86_400.0
_MOST_ROWS, _ROWS_PER_CREDIT, _FIRST = 100, 10, 1_000


class FakeZoho(fake.Fake):
    """A fake Zoho CRM on its own port, which serves logins and API.

    `leads` are the emails of leads, a kind of record that the hub does not know. `locked` are the
    ids of locked records.
    """

    kinds: ClassVar = {kind: module for module, kind in MODULES.items()}
    settings: ClassVar = control.SETTINGS | control.TOKEN_SETTINGS | control.AT_ONCE_SETTINGS
    options: Options
    tokens: Tokens
    authorizations: Authorizations

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
            self.authorizations = Authorizations(
                "Zoho", self.tokens.client_id, _AUTHORIZE, known_scopes=SCOPES, separator=","
            )
            self.columns = modules(
                unique_email=options.unique_email,
                encrypted_email=options.encrypted_email,
                mark=options.mark,
                mark_is_unique=options.mark_is_unique,
            )
            if not options.has_cases:
                del self.columns["Cases"]
            self.leads: dict[str, str] = {}
            self.locked: set[str] = set()
            self._records: dict[str, dict[str, Record]] = {kind: {} for kind in self.kinds}
            self._newest = _FIRST

    # Limits, tokens and rights.

    def costs(self, received: Received) -> list[tuple[Window, int]]:
        if received.path == _TOKEN:
            return [(self.token_requests, 1)]
        if received.path == _AUTHORIZE:
            return []
        return [(self.credits, self._cost(received))]

    def _cost(self, received: Received) -> int:
        body = parsed(received.body)
        if received.path.endswith("/coql"):
            return coql.cost(str(body.get("select_query")))
        rows = body.get("data")
        return max(1, -(-len(rows) // _ROWS_PER_CREDIT)) if isinstance(rows, list) else 1

    def over(self, limit: Window | AtOnce, wait: float) -> Refused:
        headers = retry_header(wait, self.retry_after)
        if limit is self.token_requests:
            description = "You have made too many requests continuously. Please try again later."
            body = {"error": "Access Denied", "error_description": description, "status": "failure"}
            return Refused(400, body, headers=headers)
        body = fault("TOO_MANY_REQUESTS", "You have reached the limit of API calls")
        return Refused(429, body, headers=headers)

    def admit(self, received: Received) -> None:
        if received.path in (_TOKEN, _AUTHORIZE):
            return
        scheme, _, token = received.headers.get("Authorization", "").partition(" ")
        if scheme != "Zoho-oauthtoken":
            raise refused(401, "AUTHENTICATION_FAILURE", "Authentication failed")
        if self.tokens.state(token) != "valid":
            raise refused(401, "INVALID_TOKEN", "invalid oauth token")
        if not needed(received) <= self.tokens.scopes:
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

    # Endpoints.

    def handle(self, received: Received) -> Answer:
        parameters = received.parameters
        if received.path == _AUTHORIZE:
            form = received.form if received.body else parameters
            return self.authorizations.answer(received.method, form)
        if received.path == _TOKEN:
            return self._token(received)
        first, second, *rest = (*received.path.strip("/").split("/"), "", "")
        if (first, second) != API:
            raise refused(404, "INVALID_URL_PATTERN", "Please check if the URL is correct")
        match received.method, [part for part in rest if part]:
            case "POST", ["coql"]:
                return self._query(parsed(received.body))
            case "GET", ["settings", "fields"]:
                module = self._module(parameters.get("module", ""))
                return Answer(200, telling.fields(self.columns[module]))
            case "GET", ["settings", "layouts"]:
                self._module(parameters.get("module", ""))
                return Answer(200, telling.layouts())
            case "GET", ["settings", "pipeline"]:
                return Answer(200, telling.pipelines(parameters.get("layout_id", "")))
            case "GET", ["users"]:
                return Answer(200, telling.users(parameters))
            case "GET", [module, "search"]:
                return self._search(self._module(module), parameters)
            case "GET", [module, id_]:
                return self._read(self._module(module), id_)
            case "POST", [module]:
                return self._write(self._module(module), parsed(received.body), "")
            case "PUT", [module, *path] if len(path) < 2:
                return self._write(self._module(module), parsed(received.body), *(path or ["*"]))
        raise refused(404, "INVALID_URL_PATTERN", "Please check if the URL is correct")

    def _token(self, received: Received) -> Answer:
        try:
            token = self.tokens.grant(received.form, self.authorizations)
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

    def _query(self, body: Mapping[str, Any]) -> Answer:
        text = body.get("select_query")
        if not isinstance(text, str):
            raise refused(400, "MANDATORY_NOT_FOUND", "required", api_name="select_query")
        query = coql.parse(text, self.columns, exact_case=self.options.exact_case)
        rows = [self._shown(query.module, record) for record in self._of(query.module).values()]
        rows = [row for row in rows if query.test(row)]
        rows.sort(key=lambda row: str(row.get(query.order)), reverse=query.descending)
        page = rows[query.offset : query.offset + query.limit]
        if not page:
            return Answer(204)
        names = dict.fromkeys([*query.columns, "id"])
        data = [{name: in_coql(row.get(name)) for name in names} for row in page]
        if self.options.drops_null:
            data = [{n: v for n, v in row.items() if v is not None} for row in data]
        more = query.offset + query.limit < len(rows)
        return Answer(200, {"data": data, "info": {"count": len(page), "more_records": more}})

    def _search(self, module: str, parameters: Mapping[str, str]) -> Answer:
        """Search the index, which lags, for records of which a field has a part of the text."""
        text = (parameters.get("email") or parameters.get("phone") or "").lower()
        found = [
            {"id": record.id, **seen}
            for record in self._of(module).values()
            if text and (seen := record.searchable(self.search_lag))
            if any(text in value.lower() for value in seen.values() if isinstance(value, str))
        ]
        return Answer(200, {"data": found}) if found else Answer(204)

    def _read(self, module: str, id_: str) -> Answer:
        record = self._of(module).get(id_)
        if record:
            return Answer(200, {"data": [self._shown(module, record)]})
        if id_.isdecimal() and self.options.absent_is_204:
            return Answer(204)
        message = "the id given seems to be invalid"
        raise listed(400, "INVALID_DATA", message, resource_path_index=1)

    # Writes.

    def _write(self, module: str, body: Mapping[str, Any], id_: str) -> Answer:
        """Create or update records; `id_` is "" for new ones, and "*" if each row has its id."""
        rows = body.get("data")
        if not isinstance(rows, list) or not 0 < len(rows) <= _MOST_ROWS:
            details = {"expected_data_type": "jsonarray", "api_name": "data"}
            raise listed(400, "INVALID_DATA", "the body needs 1 to 100 records", **details)
        if id_ and id_ != "*":
            rows = [{**row, "id": id_} for row in rows[:1]]
        outcomes = [
            self._update(module, row, i) if id_ else self._create(module, row, i)
            for i, row in enumerate(rows)
        ]
        return answered(outcomes, 200 if id_ else 201)

    def _create(self, module: str, row: Mapping[str, Any], index: int) -> Row:
        columns, layout = self.columns[module], _layout(row)
        values = rules.kept(columns, row, create=True)
        values = {name: value for name, value in values.items() if value is not None}
        wrong = list(rules.faults(columns, values, index, self._exists))
        wrong += rules.missing(columns, values, index, self.options.demanded)
        wrong += self._duplicates(module, values, index, "")
        if module == "Deals" and not wrong:
            wrong += rules.place_faults(values, layout, index)
            values.setdefault("Pipeline", rules.default_pipeline(layout).name)
        if wrong:
            return together(wrong)
        record = self._store(MODULES[module], values)
        return self._success(record, "record added")

    def _update(self, module: str, row: Mapping[str, Any], index: int) -> Row:
        columns, record = self.columns[module], self._of(module).get(str(row.get("id")))
        if record is None:
            return fault("INVALID_DATA", "the id given seems to be invalid", **at("id", index))
        if record.id in self.locked:
            return fault("RECORD_LOCKED", "the record is locked")
        values = rules.kept(columns, row, create=False)
        wrong = list(rules.faults(columns, values, index, self._exists))
        wrong += self._duplicates(module, values, index, record.id)
        if wrong:
            return together(wrong)
        merged = {**record.properties, **values}
        record.write({n: v for n, v in merged.items() if v is not None}, now_ms())
        return self._success(record, "record updated")

    def _duplicates(
        self, module: str, values: Mapping[str, Any], index: int, own: str
    ) -> list[Row]:
        found = []
        for name, value in values.items():
            if not self.columns[module][name].unique or not isinstance(value, str):
                continue
            holder = next(
                (
                    (record.id, module)
                    for record in self._of(module).values()
                    if record.id != own
                    and str(record.properties.get(name, "")).casefold() == value.casefold()
                ),
                ("", ""),
            )
            if not holder[0] and name == "Email" and value.casefold() in self.leads:
                holder = (self.leads[value.casefold()], "Leads")
            if holder[0]:
                of = {"api_name": holder[1], "id": id_of(50)}
                duplicate = {"id": holder[0], "Owner": reference(USERS[0]), "module": of}
                details = {**at(name, index), "duplicate_record": duplicate, "more_records": False}
                found.append(fault("DUPLICATE_DATA", "duplicate data", **details))
        return found

    def _success(self, record: Record, message: str) -> Row:
        by = reference(USERS[0])
        details = {
            "id": record.id,
            "Created_Time": time_of(record.created_at),
            "Modified_Time": time_of(record.updated_at),
            "Created_By": by,
            "Modified_By": by,
            "$approval_state": "approved",
        }
        return {"code": "SUCCESS", "details": details, "message": message, "status": "success"}

    # Records.

    def stored(self, kind: str) -> Mapping[str, Record]:
        if kind not in self._records:
            raise refused(400, "INVALID_MODULE", f"there are no {kind}")
        return self._records[kind]

    def add(self, kind: str, properties: Mapping[str, Any], *, contacts: Iterable[str] = ()) -> str:
        """Create a record with fields under Zoho's names, without looking at their values.

        Raises Refused for a value that another record has and must be unique.
        """
        module = next(name for name, of in MODULES.items() if of == kind)
        with self.lock:
            if wrong := self._duplicates(module, properties, 0, ""):
                raise Refused(400, {"data": wrong})
            link = {"deals": "Contact_Name", "tickets": "Related_To"}.get(kind, "")
            values = dict(properties)
            for contact in contacts:
                values[link] = {"id": contact}
            record = self._store(kind, values)
            record.index()
            return record.id

    def delete(self, kind: str, id_: str) -> None:
        """Delete a record."""
        with self.lock:
            del self._records[kind][id_]

    def linked(self, kind: str, id_: str, to: str) -> list[str]:
        if kind == "contacts":
            return [i for i, one in self.stored(to).items() if id_ in _links(one)]
        record = self.stored(kind).get(id_)
        held = _links(record) if record else []
        return [linked for linked in held if to == "contacts" and linked in self.stored(to)]

    def _store(self, kind: str, values: Mapping[str, Any]) -> Record:
        self._newest += 1
        record = Record(kind, id_of(self._newest), now_ms(), now_ms())
        # A record without an owner gets the user of the connection.
        record.write({"Owner": {"id": USERS[0]["id"]}, **values}, now_ms())
        self._records[kind][record.id] = record
        return record

    def _module(self, name: str) -> str:
        if name not in self.columns:
            raise refused(400, "INVALID_MODULE", "the module name given seems to be invalid")
        return name

    def _of(self, module: str) -> dict[str, Record]:
        return self._records[MODULES[module]]

    def _exists(self, module: str, id_: str) -> bool:
        if module == "users":
            return any(user["id"] == id_ for user in USERS)
        return id_ in self._of(module)

    def _shown(self, module: str, record: Record) -> dict[str, Any]:
        return shown(module, self.columns[module], record)


def _links(record: Record) -> list[str]:
    held = (record.properties.get(name) for name in ("Contact_Name", "Related_To"))
    return [link["id"] for link in held if isinstance(link, dict)]


def _layout(row: Mapping[str, Any]) -> str:
    given = row.get("Layout")
    layout = str(given.get("id")) if isinstance(given, dict) else ""
    return layout if layout in LAYOUTS else next(iter(LAYOUTS))
