"""The Flask application; only this module imports all parts of the service."""

from __future__ import annotations

import os
import re
import time
from functools import cache
from typing import Any
from wsgiref.types import StartResponse, WSGIEnvironment

import flask
import structlog
from werkzeug.routing import MapAdapter

from crmhub import logs, metrics
from crmhub.accounts.accounts import Account
from crmhub.accounts.limits import RateStatus
from crmhub.api import crm_webhooks, documents, operational, reference
from crmhub.api.admin import callers as admin_callers
from crmhub.api.admin import routes as admin
from crmhub.api.admin.blueprint import ActionId
from crmhub.api.agents import endpoint as agents
from crmhub.api.helpers import chatbot, functions
from crmhub.api.http import failures, flask_proxies
from crmhub.api.http.authentication import PLACE, PUBLIC_API, authenticate
from crmhub.api.http.blueprint import check_request
from crmhub.api.http.document import Document
from crmhub.api.http.documentation import Documented
from crmhub.api.http.reading import ARRIVED
from crmhub.api.public import (
    actions,
    copies,
    event_subscriptions,
    pipelines,
    properties,
    usage,
    workflows,
)
from crmhub.api.public.record_paths import RecordId
from crmhub.api.public.records import records_blueprint
from crmhub.bounds import MAX_BODY_BYTES
from crmhub.console import pages
from crmhub.console import routes as console
from crmhub.console.sessions import PREFIX as CONSOLE
from crmhub.hub import Hub
from crmhub.properties.kinds import KINDS
from crmhub.settings import Settings

_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_API_PATHS = "/<client_id>/api/v1/"
_HELPER_PATHS = ("/chatbot/", "/crm-api-interface/")
_log = structlog.get_logger("crmhub.request")


class _App(flask.Flask):
    def create_url_adapter(self, request: flask.Request | None) -> MapAdapter | None:
        # No route depends on the host; Flask would read it three times.
        if request is None:
            return None
        return MapAdapter(
            self.url_map,
            server_name="",
            script_name=request.root_path,
            subdomain="",
            url_scheme=request.scheme,
            path_info=request.path,
            default_method=request.method,
        )

    def wsgi_app(self, environ: WSGIEnvironment, start_response: StartResponse) -> Any:
        database = self.extensions["crmhub"].database
        # Until the caller is authenticated.
        database.bind_account(None)
        try:
            return super().wsgi_app(environ, start_response)
        finally:
            database.bind_account(None)
            # Flask's teardown functions would take three times as long.
            account_id = environ.get(PLACE)
            if account_id is not None:
                self.extensions["crmhub"].shares.release(account_id)

    def log_exception(self, exc_info: Any) -> None:
        # `failures` logs it. Flask would log the path, which may contain a webhook id.
        pass


def create_app(settings: Settings | None = None) -> flask.Flask:
    """Raises SettingsError if the settings, by default of `Settings.load`, are invalid."""
    settings = settings or Settings.load()
    logs.configure(settings.log_level)
    app = _App("crmhub", static_folder=None, static_url_path="/static")
    app.config.update(MAX_CONTENT_LENGTH=MAX_BODY_BYTES, MAX_FORM_MEMORY_SIZE=MAX_BODY_BYTES)
    app.json.sort_keys = False  # type: ignore[attr-defined]
    # A redirect would have no JSON body.
    app.url_map.strict_slashes = False
    app.url_map.merge_slashes = False
    app.url_map.converters["record"] = RecordId
    app.url_map.converters["action"] = ActionId
    app.extensions["crmhub"] = Hub.open(settings, serves=True).load()

    app.before_request(_begin)
    app.after_request(_end)

    api = Document(app)
    for kind in KINDS.values():
        api.register_blueprint(records_blueprint(kind))
    for module in (
        properties,
        pipelines,
        usage,
        copies,
        actions,
        workflows,
        event_subscriptions,
        chatbot,
        functions,
        admin,
    ):
        api.register_blueprint(module.blueprint)
    agents.register(app)
    crm_webhooks.register(app)
    operational.register(app)
    reference.register(app, api)
    documents.register(app)
    console.register(app)
    failures.register(app)
    return app


def _begin() -> None:
    """The caller is authenticated before routing errors are raised, so a 401 has priority over
    404, 405 and 400."""
    request, g = flask_proxies.request(), flask_proxies.g()
    sent = request.headers.get("X-Request-Id", "")
    g.began = request.environ.get(ARRIVED) or time.monotonic()
    g.request_id = sent if _REQUEST_ID.fullmatch(sent) else os.urandom(16).hex()
    structlog.contextvars.bind_contextvars(request_id=g.request_id)
    if match := PUBLIC_API.match(request.path):
        authenticate(request, match[1])
        # The key has identified the account, so views do not take it as an argument.
        (request.view_args or {}).pop("client_id", None)
    elif request.path == agents.PATH:
        agents.authenticate(request)
    elif request.path.startswith(admin_callers.PREFIX):
        admin_callers.authenticate(request)
    scope = check_request(request)
    if scope and match and request.blueprint != workflows.blueprint.name:
        of: Account = g.caller.account
        if of.switches.mirror:
            copies.check_copy(of, scope)


def _end(response: flask.Response) -> flask.Response:
    request, g = flask_proxies.request(), flask_proxies.g()
    if response.status_code >= 400:
        response = failures.in_shape(response)
    if request.path.startswith(CONSOLE):
        response = pages.finish(response)
    response.headers.add("X-Request-Id", g.request_id)
    response.headers.add("X-Content-Type-Options", "nosniff")
    if "rate" in g:
        rate: RateStatus = g.rate
        response.headers.add("RateLimit-Limit", str(rate.limit))
        response.headers.add("RateLimit-Remaining", str(rate.remaining))
        response.headers.add("RateLimit-Reset", str(rate.reset_s))
    rule = request.url_rule
    seconds = time.monotonic() - g.began
    operation, resource, helper = (
        _metric_names(rule.endpoint, rule.rule) if rule else ("none", "", "")
    )
    status = f"{response.status_code // 100}xx"
    metrics.answered(operation, seconds, resource=resource, status=status)
    if helper and request.method == "POST":
        # A helper may answer a failure with 200; `failed_with` is the failure's own status.
        code = g.get("failed_with") or response.status_code
        metrics.helper_answered(helper, str(code) if code < 300 else f"{code // 100}xx")
    _log.info(
        "request",
        method=request.method,
        # Not the path: it contains ids and addresses.
        route=rule.rule if rule else None,
        status=response.status_code,
        ms=round(seconds * 1000, 1),
    )
    structlog.contextvars.clear_contextvars()
    return response


@cache
def _metric_names(endpoint: str, rule: str) -> tuple[str, str, str]:
    """The operation as in /openapi.json, the resource under the public API, and the helper.

    Paths are not used as labels, since they contain ids and addresses.
    """
    view = flask.current_app.view_functions[endpoint]
    documented: Documented | None = getattr(view, "documented", None)
    return (
        documented.operation_id if documented else endpoint,
        endpoint.rpartition(".")[0] if rule.startswith(_API_PATHS) else "",
        rule.split("/")[2] if rule.startswith(_HELPER_PATHS) else "",
    )
