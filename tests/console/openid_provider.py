"""A small OpenID Connect provider on this machine, which signs in whom a test says.

It keeps the rules that a provider keeps: codes are for one client and redirect URI, are used once,
and are exchanged with the verifier of PKCE. What its ID tokens say can be bent.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT_ID, CLIENT_SECRET = "crmhub", "a secret: of the client"


class Provider:
    """Serves at `issuer`; `authorize` answers as a user who has signed in there.

    `claims` are put over those of the next ID tokens (None takes one away), `sign` signs them.
    With `user_info`, there is an endpoint that answers it to who sends the access token.
    """

    def __init__(self) -> None:
        self.key = RSAKey.generate_key(2048, {"kid": "1", "use": "sig"})
        self.claims: dict[str, Any] = {}
        self.user_info: dict[str, Any] = {}
        self.sign = self.signed
        self.calls: list[str] = []
        self.metadata: dict[str, Any] = {}
        self._codes: dict[str, dict[str, str]] = {}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(*outer.get(self.path, self.headers.get("Authorization", "")))

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                form = {name: values[0] for name, values in parse_qs(body).items()}
                self._answer(*outer.post(form, self.headers.get("Authorization", "")))

            def _answer(self, status: int, body: Any) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.issuer = f"http://127.0.0.1:{self._server.server_port}/realm"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def authorize(self, url: str, email: str) -> dict[str, str]:
        """Return the parameters with which the provider sends a browser back from `url`."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert asked["client_id"] == CLIENT_ID
        assert asked["code_challenge_method"] == "S256"
        assert "openid" in asked["scope"].split()
        code = f"code-{len(self._codes)}"
        self._codes[code] = {**asked, "email": email}
        return {"code": code, "state": asked["state"]}

    def get(self, path: str, authorization: str) -> tuple[int, Any]:
        self.calls.append(path)
        with_info = {"userinfo_endpoint": f"{self.issuer}/info"} if self.user_info else {}
        if path == "/realm/.well-known/openid-configuration":
            return 200, {
                "issuer": self.issuer,
                "authorization_endpoint": f"{self.issuer}/authorize",
                "token_endpoint": f"{self.issuer}/token",
                "jwks_uri": f"{self.issuer}/keys",
                **with_info,
                **self.metadata,
            }
        if path == "/realm/info" and authorization == "Bearer x":
            return 200, self.user_info
        if path == "/realm/keys":
            public = self.key.as_dict(private=False)
            unknown = {"kty": "OKP", "crv": "X448", "x": "AA", "kid": "0"}
            return 200, {"keys": [unknown, public]}
        return 404, {}

    def post(self, form: Mapping[str, str], authorization: str) -> tuple[int, Any]:
        self.calls.append("/realm/token")
        basic = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        assert basic == f"{CLIENT_ID}:a%20secret%3A%20of%20the%20client"
        # Taken away: a code is used once, whatever comes of it.
        asked = self._codes.pop(form["code"], None)
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if (
            asked is None
            or asked["redirect_uri"] != form["redirect_uri"]
            or asked["code_challenge"] != challenge
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": "1234",
            "aud": CLIENT_ID,
            "iat": now,
            "exp": now + 300,
            "nonce": asked["nonce"],
            "email": asked["email"],
            "email_verified": True,
            **self.claims,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        return 200, {"access_token": "x", "token_type": "Bearer", "id_token": self.sign(claims)}

    # --- signatures, right and wrong -------------------------------------------------------------

    def signed(self, claims: dict[str, Any]) -> str:
        return jwt.encode({"alg": "RS256", "kid": "1"}, claims, self.key)

    def unsigned(self, claims: dict[str, Any]) -> str:
        return f"{_encoded({'alg': 'none', 'kid': '1'})}.{_encoded(claims)}."

    def signed_by_another(self, claims: dict[str, Any]) -> str:
        other = RSAKey.generate_key(2048)
        return jwt.encode({"alg": "RS256", "kid": "1"}, claims, other)

    def signed_with_the_public_key(self, claims: dict[str, Any]) -> str:
        """Return what whoever knows the public key can sign, where HS256 is accepted."""
        parts = [_encoded({"alg": "HS256", "kid": "1"}), _encoded(claims)]
        secret = self.key.as_pem(private=False)
        signature = hmac.digest(secret, ".".join(parts).encode(), "sha256")
        return ".".join([*parts, base64.urlsafe_b64encode(signature).decode().rstrip("=")])


def _encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
