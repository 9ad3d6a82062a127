"""OAuth 2.0 with an authorization code: the address to approve at, and the code's exchange.

RFC 6749, 4.1, and PKCE with S256 (RFC 7636).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

import requests
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from crmhub.adapter import OAuth
from crmhub.egress import Egress
from crmhub.errors import HubError, Semantic, Unavailable
from crmhub.translatable import translatable

_SECONDS = 10.0
_RETRY_AFTER_S = 30
_LONGEST_ACCOUNT = 100
# RFC 6749, 4.1.2.1 and 5.2: error codes are short words, and no secrets.
_CODE = re.compile(r"[a-z_]{1,40}", re.ASCII)


def authorize_url(
    oauth: OAuth, *, client_id: str, redirect_uri: str, state: str, verifier: str
) -> str:
    """Return the address to approve at; raises Semantic if the adapter names no web address."""
    if not oauth.authorize_url.startswith(("https://", "http://")):
        raise Semantic("The adapter names no web address at which to connect.")
    url: str = prepare_grant_uri(
        oauth.authorize_url,
        client_id,
        "code",
        redirect_uri=redirect_uri,
        scope=list(oauth.scopes),
        state=state,
        code_challenge=create_s256_code_challenge(verifier),
        code_challenge_method="S256",
        **oauth.parameters,
    )
    return url


def exchange(
    session: Egress,
    oauth: OAuth,
    credentials: Mapping[str, str],
    *,
    code: str,
    redirect_uri: str,
    verifier: str,
    crm: str,
) -> tuple[str, str]:
    """Return the refresh token, and the id of the account in the CRM or "".

    Raises Unavailable without an answer, or Semantic.
    """
    client = {name: credentials.get(name, "") for name in ("client_id", "client_secret")}
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    if oauth.client_auth == "basic":
        # RFC 6749, 2.3.1: both are encoded like the fields of a form first.
        pair = ":".join(quote(value, safe="") for value in client.values())
        headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        client = {}
    body: str = prepare_token_request(
        "authorization_code",
        redirect_uri=redirect_uri,
        code=code,
        code_verifier=verifier,
        **client,
    )
    try:
        answer = session.request(
            "POST", oauth.token_url, headers=headers, data=body.encode(), timeout=_SECONDS
        )
    except requests.exceptions.InvalidURL as exc:
        raise Semantic("%(reason)s. Nothing was changed.", reason=str(exc)) from exc
    except requests.RequestException as exc:
        raise _unavailable(crm, oauth, "") from exc
    if answer.status_code >= 500 or answer.status_code == 429:
        raise _unavailable(crm, oauth, str(answer.status_code))
    fields = _json_object(answer.content)
    token = fields.get("refresh_token")
    if answer.status_code != 200 or not isinstance(token, str) or not token:
        raise _refused(crm, answer.status_code, fields.get("error"))
    account = fields.get(oauth.account_field)
    known = isinstance(account, str | int) and not isinstance(account, bool)
    return token, str(account)[:_LONGEST_ACCOUNT] if known else ""


def _json_object(content: bytes) -> Mapping[str, object]:
    try:
        read = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _unavailable(crm: str, oauth: OAuth, status: str) -> HubError:
    """`status`: of the answer, "" without one."""
    host = urlsplit(oauth.token_url).netloc
    if not status:
        return Unavailable(
            "%(crm)s did not answer at %(host)s when its tokens were fetched. Nothing was changed."
            " Connect again in a moment.",
            retry_after=_RETRY_AFTER_S,
            crm=crm,
            host=host,
        )
    return Unavailable(
        "%(crm)s answered %(status)s at %(host)s when its tokens were fetched. Nothing was changed."
        " Connect again in a moment.",
        retry_after=_RETRY_AFTER_S,
        crm=crm,
        status=status,
        host=host,
    )


def _refused(crm: str, status: int, error: object) -> HubError:
    if error == "invalid_client":
        return Semantic(
            "%(crm)s does not accept the client id or the client secret. Nothing was changed.",
            crm=crm,
        )
    word = error if isinstance(error, str) and _CODE.fullmatch(error) else f"status {status}"
    return Semantic(
        "%(crm)s gave no refresh token (%(word)s). Nothing was changed. Connect again.",
        crm=crm,
        word=word,
    )


def denied(crm: str, error: str) -> HubError:
    """Return the error for a browser that the CRM sent back without a code; `error` says why."""
    if error == "access_denied":
        return Semantic(
            "The connection was not approved in %(crm)s. Nothing was changed.",
            crm=crm,
        )
    word = error if _CODE.fullmatch(error) else translatable("no reason")
    return Semantic(
        "%(crm)s sent you back without an approval (%(word)s). Nothing was changed.",
        crm=crm,
        word=word,
    )
