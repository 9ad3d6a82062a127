"""Client of an OpenID Connect provider: discovery, authorization code with PKCE, ID tokens.

OpenID Connect Core 1.0, 3.1 (https://openid.net/specs/openid-connect-core-1_0.html) and Discovery
1.0.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import requests

from crmhub.egress import Egress
from crmhub.errors import Unauthorized, Unavailable

SCOPES = "openid email profile"
# Signatures with a private key of the provider. Neither `none` nor HS256 may ever be accepted.
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_KEY_TYPES = ("RSA", "EC")
_SECONDS = 5.0
_KEPT_S = 600.0
# Nobody has to sign in to make the hub call the provider. So while the provider is unavailable,
# calls fail at once for this time, instead of keeping a thread each.
_PAUSE_S = 5.0
# A token with an unknown key makes the hub read the keys again, but not more often than this.
_KEYS_EVERY_S = 10.0
_LEEWAY_S = 60


@dataclass(frozen=True, slots=True)
class _Cached:
    """An answer of the provider, and the time by `time.monotonic` at which it was read.

    Threads share it without a lock, since it is replaced as a whole.
    """

    value: Any = None
    read_at: float = field(default=-float("inf"))

    def is_younger(self, seconds: float) -> bool:
        return time.monotonic() - self.read_at < seconds


class OpenId:
    def __init__(self, egress: Egress, issuer: str, client_id: str, client_secret: str) -> None:
        self._egress = egress
        self._issuer = issuer
        self._client_id = client_id
        self._client_secret = client_secret
        self._metadata = _Cached()
        self._failure = _Cached()
        self._keys = _Cached()

    def authorization_url(self, *, redirect_uri: str, state: str, nonce: str, verifier: str) -> str:
        """Return the URL of the provider's page; raises Unavailable without a usable provider."""
        from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
        from authlib.oauth2.rfc7636 import create_s256_code_challenge

        url: str = prepare_grant_uri(
            self._endpoint("authorization_endpoint"),
            client_id=self._client_id,
            response_type="code",
            redirect_uri=redirect_uri,
            scope=SCOPES,
            state=state,
            nonce=nonce,
            code_challenge=create_s256_code_challenge(verifier),
            code_challenge_method="S256",
        )
        return url

    def identify(self, *, code: str, redirect_uri: str, nonce: str, verifier: str) -> str:
        """Return the verified email of the person that the ID token for a code names.

        Raises Unauthorized for a refused code, an invalid token or an unverified email, and
        Unavailable.
        """
        answer = self._request_token(code, redirect_uri, verifier)
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise Unauthorized("The provider sent no ID token; its client needs the scope openid.")
        claims = self._verified_claims(token, nonce)
        email = _verified_email(claims) or _verified_email(self._user_info(answer, claims))
        if email is None:
            raise Unauthorized("The provider has not verified your email address.")
        return email

    def _user_info(self, answer: Mapping[str, Any], claims: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the claims of the userinfo endpoint about the person of an ID token.

        Okta leaves `email_verified` out of the ID token (OpenID Connect Core 1.0, 5.4). Without
        such an endpoint, or where the ID token says that the email is not verified: no claims.
        """
        named = "userinfo_endpoint" in self._provider()
        if not named or claims.get("email_verified", True) is not True:
            return {}
        headers = {"Authorization": f"Bearer {answer.get('access_token')}"}
        told = _json_object(self._send("GET", self._endpoint("userinfo_endpoint"), headers))
        # 5.3.2: a reply about anybody else must not be used.
        return told if told.get("sub") == claims["sub"] else {}

    def _request_token(self, code: str, redirect_uri: str, verifier: str) -> Mapping[str, Any]:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": verifier,
        }
        methods = self._provider().get("token_endpoint_auth_methods_supported")
        basic = not isinstance(methods, list) or "client_secret_basic" in methods
        auth = None
        if basic:
            # RFC 6749, 2.3.1: both are form-encoded first.
            quoted = map(quote, (self._client_id, self._client_secret))
            auth = requests.auth.HTTPBasicAuth(*quoted)
        else:
            form |= {"client_id": self._client_id, "client_secret": self._client_secret}
        response = self._send("POST", self._endpoint("token_endpoint"), data=form, auth=auth)
        if response.status_code in (400, 401, 403):
            raise Unauthorized("The provider refuses this sign-in. Start again.")
        return _json_object(response)

    def _verified_claims(self, token: str, nonce: str) -> Mapping[str, Any]:
        from authlib.oidc.core import CodeIDToken
        from joserfc import jwt
        from joserfc.errors import JoseError

        expected = {
            "iss": {"essential": True, "value": self._issuer},
            "aud": {"essential": True, "value": self._client_id},
        }
        try:
            decoded = jwt.decode(token, self._key_of(token), algorithms=_ALGORITHMS)
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                expected,
                {"nonce": nonce, "client_id": self._client_id},
            )
            claims.validate(leeway=_LEEWAY_S)
        # ValueError and TypeError: of a token that is no JWT, or claims of a wrong type.
        except (JoseError, ValueError, TypeError) as exc:
            raise Unauthorized(
                "The provider's token is not valid (%(name)s). Start again.",
                name=type(exc).__name__,
            ) from exc
        return dict(claims)

    def _key_of(self, token: str) -> Any:
        """Return the provider's key with the id that a token names; raises ValueError if none."""
        from joserfc import jws

        header = jws.extract_compact(token.encode()).headers()
        key_id = header.get("kid")
        for kept_s in (_KEPT_S, _KEYS_EVERY_S):
            keys = self._read_keys(kept_s)
            matching = [key for key in keys if key_id is None or key.kid == key_id]
            if key_id is None and len(matching) > 1:
                # OpenID Connect Core 1.0, 10.1: then the header must name the key.
                raise ValueError("the token names no key")
            if matching:
                return matching[0]
        raise ValueError("unknown key")

    def _read_keys(self, kept_s: float) -> list[Any]:
        from joserfc.errors import JoseError
        from joserfc.jwk import JWKRegistry

        if self._keys.is_younger(kept_s):
            return list(self._keys.value)
        document = _json_object(self._send("GET", self._endpoint("jwks_uri")))
        keys, listed = [], document.get("keys")
        for one in listed if isinstance(listed, list) else []:
            is_usable = isinstance(one, dict) and one.get("kty") in _KEY_TYPES
            if not is_usable or one.get("use", "sig") != "sig":
                continue
            try:
                keys.append(JWKRegistry.import_key(one))
            except (JoseError, ValueError, TypeError):
                # One key that this version cannot read must not make the others useless.
                continue
        self._keys = _Cached(keys, time.monotonic())
        return keys

    def _provider(self) -> Mapping[str, Any]:
        if self._metadata.is_younger(_KEPT_S):
            kept: Mapping[str, Any] = self._metadata.value
            return kept
        if self._failure.is_younger(_PAUSE_S):
            raise Unavailable(self._failure.value)
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        try:
            metadata = _json_object(self._send("GET", url))
            if metadata.get("issuer") != self._issuer:
                raise Unavailable(
                    "CRMHUB_OIDC_ISSUER is %(issuer)s, but the provider calls itself"
                    " %(named)s. Set it to exactly this text.",
                    issuer=self._issuer,
                    named=str(metadata.get("issuer"))[:200],
                )
        except Unavailable as exc:
            self._failure = _Cached(exc.message, time.monotonic())
            raise
        self._metadata = _Cached(metadata, time.monotonic())
        return metadata

    def _endpoint(self, name: str) -> str:
        url = self._provider().get(name)
        if not isinstance(url, str) or not url.startswith(("https://", "http://")):
            raise Unavailable("The sign-in provider names no %(name)s.", name=name)
        return url

    def _send(
        self, method: str, url: str, headers: Mapping[str, str] | None = None, **more: Any
    ) -> requests.Response:
        headers = {"Accept": "application/json", **(headers or {})}
        try:
            return self._egress.request(method, url, timeout=_SECONDS, headers=headers, **more)
        except requests.RequestException as exc:
            # Without the exception's text, which may contain a URL with the code.
            raise Unavailable(
                "The sign-in provider cannot be reached (%(name)s). Try again, or sign"
                " in with your password.",
                name=type(exc).__name__,
            ) from exc


def _verified_email(claims: Mapping[str, Any]) -> str | None:
    """Return the email of claims; None without one, or where the provider has not verified it.

    Entra ID never says `email_verified`. Its claim `xms_edov` says that the domain of the email
    belongs to the person's organization, and comes as true, "true" or "1".
    """
    email = claims.get("email")
    verified = claims.get("email_verified", claims.get("xms_edov") in (True, "true", "1"))
    return email if isinstance(email, str) and verified is True else None


def _json_object(response: requests.Response) -> Mapping[str, Any]:
    try:
        body = response.json() if response.status_code == 200 else None
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise Unavailable(
            "The sign-in provider answered %(status)s and not as OpenID Connect"
            " requires. Try again, or sign in with your password.",
            status=response.status_code,
        )
    return body
