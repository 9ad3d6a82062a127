"""The address to which an account's CRM sends its webhooks: each is verified, and noted as a hint.

A webhook is never believed: a worker reads the records that it names from the CRM.
"""

from __future__ import annotations

import hmac

import flask

from crmhub.adapter import Denied, Rejected, Unsupported, WebhookRequest
from crmhub.api.http.answers import nothing
from crmhub.api.http.authentication import count_auth_failure, hub, take_place
from crmhub.crm.connection import connect, sound
from crmhub.errors import NotFound, Semantic, Unauthorized
from crmhub.operators.crm import copy_crm
from crmhub.queue.slots import too_many_at_once


def register(app: flask.Flask) -> None:
    app.add_url_rule(
        f"{copy_crm.WEBHOOK_PATH}/<client_id>/<signature>",
        view_func=_take,
        endpoint="crm_webhook",
        methods=["POST"],
    )


def _take(client_id: str, signature: str) -> flask.Response:
    here, request = hub(), flask.request
    unknown = NotFound("No CRM sends webhooks to this address; crmhub sync status shows it.")
    try:
        account = here.load_account(client_id)
    except NotFound as exc:
        raise count_auth_failure(unknown, "the address") from exc
    right = copy_crm.webhook_signature(here, account)
    if not hmac.compare_digest(signature.encode(), right.encode()) or not account.switches.mirror:
        raise count_auth_failure(unknown, "the address")
    if not take_place(request.environ, here, account):
        raise too_many_at_once()
    with here.database.for_account(account.id):
        sent = WebhookRequest(
            request.method,
            f"{here.settings.public_url or request.host_url.rstrip('/')}{request.path}",
            {name.lower(): value for name, value in request.headers.items()},
            request.get_data(),
        )
        try:
            with sound():
                named = connect(here, account).events(sent)
        except Denied as exc:
            raise count_auth_failure(Unauthorized(exc.message), "the webhook's secret") from exc
        except (Rejected, Unsupported) as exc:
            raise Semantic(exc.message) from exc
        copy_crm.tell(here, account, named)
    return nothing()
