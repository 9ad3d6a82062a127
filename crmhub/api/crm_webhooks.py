"""The address to which an account's CRM sends its webhooks: each is verified, and noted as a hint.

A webhook is never believed: a worker reads the records that it names from the CRM. So a repeated
one does no harm. The cheapest checks come first: the address's signature needs no database.
"""

from __future__ import annotations

import hmac
import re

import flask

from crmhub.accounts.accounts import Account
from crmhub.adapter import Denied, Rejected, Unsupported, WebhookRequest
from crmhub.api.http.answers import nothing
from crmhub.api.http.authentication import count_auth_failure, hub, take_place
from crmhub.crm.connection import connect, sound
from crmhub.crm.watching import WEBHOOK_PATH, webhook_signature
from crmhub.errors import HubError, NotFound, Semantic, TooManyRequests, Unauthorized
from crmhub.operators.crm import copy_crm
from crmhub.queue.slots import too_many_at_once

_SIGNATURE = re.compile(r"([0-9]{1,9})-[0-9a-f]+", re.ASCII)


def register(app: flask.Flask) -> None:
    app.add_url_rule(
        f"{WEBHOOK_PATH}/<client_id>/<signature>",
        view_func=_take,
        endpoint="crm_webhook",
        methods=["POST"],
    )


def _take(client_id: str, signature: str) -> flask.Response:
    here, request = hub(), flask.request
    account = _account_of(client_id, signature)
    rate = here.limits.hit_crm_webhook(account)
    if not rate.allowed:
        raise TooManyRequests(
            f"More than {rate.limit} webhooks; the hub also asks the CRM for changes."
            f" Try again in {rate.retry_after} s.",
            retry_after=rate.retry_after,
        )
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


def _account_of(client_id: str, signature: str) -> Account:
    """Raises NotFound unless the account has a copy of the CRM that this address is for."""
    here, found = hub(), _SIGNATURE.fullmatch(signature)
    if found is None:
        raise _unknown()
    connection_id = int(found[1])
    right = webhook_signature(here, client_id, connection_id)
    if not hmac.compare_digest(signature, right):
        raise _unknown()
    account = here.directory.by_client_id(client_id)
    if account is None or account.connection.id != connection_id or not account.switches.mirror:
        raise _unknown()
    return account


def _unknown() -> HubError:
    words = "No CRM sends webhooks to this address; crmhub sync status shows it."
    return count_auth_failure(NotFound(words), "the address")
