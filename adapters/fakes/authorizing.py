"""The page of a fake CRM on which a person lets an app into the account (OAuth 2.0).

The person approves or denies; the browser then returns to the app with a code or an error
(RFC 6749, 4.1). The app exchanges the code at the token endpoint, and proves with PKCE that it is
the app that opened the page (RFC 7636).
"""

from __future__ import annotations

import base64
import hashlib
import html
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode, urlsplit

from adapters.fakes.answers import Answer

_LIFETIME_S = 600.0
_FIELDS = (
    "client_id",
    "redirect_uri",
    "scope",
    "state",
    "code_challenge",
    "code_challenge_method",
)
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Connect an app</title></head>
<body><main><h1>Connect an app to your {crm} account</h1>
<p>This is a fake {crm} for trying crmhub. The app asks for:</p><ul>{scopes}</ul>
<form method="post" action="{path}">{fields}
<button name="decision" value="approve">Connect app</button>
<button name="decision" value="deny">Deny</button></form></main></body></html>"""
_ERROR = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Authorization failed</title></head>
<body><main><h1>Authorization failed</h1><p>{reason}</p></main></body></html>"""


@dataclass(frozen=True, slots=True)
class _Code:
    """An authorization code that was issued, with what its exchange must repeat."""

    redirect_uri: str
    challenge: str
    expires: float


@dataclass(slots=True)
class Authorizations:
    """The page of a CRM with its title `crm` at `path`, and the codes that it has issued.

    `known_scopes` are the scopes that an app may ask for. If there are none, the page asks for no
    scope, since some CRMs let an app's author choose the scopes beforehand. `separator` stands
    between scopes. `codes` are the authorization codes that no app has used yet.
    """

    crm: str
    client_id: str
    path: str = "/oauth/authorize"
    known_scopes: frozenset[str] = frozenset()
    separator: str = " "
    codes: dict[str, _Code] = field(default_factory=dict)

    def answer(self, method: str, form: Mapping[str, str]) -> Answer:
        """Return the page for a GET, and the redirect to the app for a POST.

        `form` are the parameters of the query or of the form.
        """
        if reason := self._fault(form):
            return _html(400, _ERROR.format(reason=html.escape(reason)))
        if method == "GET":
            return _html(200, self._page(form))
        if method != "POST":
            return _html(405, _ERROR.format(reason="Method Not Allowed"), Allow="GET, POST")
        if form.get("decision") != "approve":
            reason = "The user denied access to the app"
            return self._back(form, error="access_denied", error_description=reason)
        code = f"fake-{secrets.token_urlsafe(32)}"
        expires = time.monotonic() + _LIFETIME_S
        self.codes[code] = _Code(form["redirect_uri"], form.get("code_challenge", ""), expires)
        return self._back(form, code=code)

    def exchange(self, form: Mapping[str, str]) -> bool:
        """Return whether a code may be exchanged for tokens; each code works once.

        `form` are the fields of the request to the token endpoint. The redirect address and the
        PKCE verifier must fit those with which the person's browser came.
        """
        code = self.codes.pop(form.get("code", ""), None)
        return (
            code is not None
            and time.monotonic() < code.expires
            and form.get("redirect_uri") == code.redirect_uri
            and (not code.challenge or _challenge(form.get("code_verifier", "")) == code.challenge)
        )

    def _fault(self, form: Mapping[str, str]) -> str:
        """Return why the request cannot be shown to a person, or "" if it can.

        Then the browser stays here, since the address to return to may be anybody's.
        """
        target = urlsplit(form.get("redirect_uri", ""))
        unknown = sorted({*self._scopes(form)} - self.known_scopes)
        if form.get("client_id") != self.client_id:
            return "Couldn't complete the connection: the client ID is unknown."
        if target.scheme not in ("http", "https") or not target.netloc or target.fragment:
            return "Couldn't complete the connection: the redirect URL does not match the app's."
        if self.known_scopes and (unknown or not form.get("scope")):
            return f"Couldn't complete the connection: scope mismatch {' '.join(unknown)}"
        if form.get("code_challenge") and form.get("code_challenge_method") != "S256":
            return "Couldn't complete the connection: the code challenge method is not S256."
        return ""

    def _scopes(self, form: Mapping[str, str]) -> list[str]:
        return [scope for scope in form.get("scope", "").split(self.separator) if scope]

    def _page(self, form: Mapping[str, str]) -> str:
        given = {name: form[name] for name in _FIELDS if name in form}
        return _PAGE.format(
            crm=html.escape(self.crm),
            path=self.path,
            scopes="".join(f"<li>{html.escape(scope)}</li>" for scope in self._scopes(form)),
            fields="".join(
                f'<input type="hidden" name="{name}" value="{html.escape(value)}">'
                for name, value in given.items()
            ),
        )

    def _back(self, form: Mapping[str, str], **parameters: str) -> Answer:
        target, state = form["redirect_uri"], form.get("state", "")
        query = urlencode(parameters | ({"state": state} if state else {}))
        separator = "&" if urlsplit(target).query else "?"
        return _html(302, "", Location=f"{target}{separator}{query}")


def _challenge(verifier: str) -> str:
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _html(status: int, text: str, **headers: str) -> Answer:
    return Answer(
        status, text.encode(), {"Cache-Control": "no-store", **headers}, "text/html;charset=utf-8"
    )
