"""The scopes of the fake Zoho, and which of them a call needs."""

from __future__ import annotations

import re
from typing import Any

import orjson

from adapters.fakes.server import Received
from adapters.fakes.zoho.failing import refused

SCOPES = frozenset(
    {
        *(
            f"ZohoCRM.modules.{of}.{right}"
            for of in ("contacts", "deals", "cases", "accounts")
            for right in ("READ", "CREATE", "UPDATE")
        ),
        *(f"ZohoCRM.settings.{of}.READ" for of in ("fields", "layouts", "pipeline")),
        *("ZohoCRM.coql.READ", "ZohoCRM.users.READ"),
    }
)
"""All scopes that an app may ask for."""
_RIGHTS = {"GET": "READ", "POST": "CREATE", "PUT": "UPDATE"}
_MODULE = re.compile(r"from\s+([A-Za-z_]+)", re.IGNORECASE)


def needed(received: Received) -> set[str]:
    """Return the scopes that a call needs."""
    match received.path.strip("/").split("/")[2:]:
        case ["coql"]:
            module = _MODULE.search(str(parsed(received.body).get("select_query")))
            of = module[1].lower() if module else "contacts"
            return {"ZohoCRM.coql.READ", f"ZohoCRM.modules.{of}.READ"} & SCOPES
        case ["settings", of]:
            return {f"ZohoCRM.settings.{of}.READ"} & SCOPES
        case ["users"]:
            return {"ZohoCRM.users.READ"}
        case [module, *_]:
            right = _RIGHTS.get(received.method, "")
            return {f"ZohoCRM.modules.{module.lower()}.{right}"} & SCOPES
    return set()


def parsed(body: bytes) -> dict[str, Any]:
    """Return the JSON object of a body, {} for anything else; raise Refused for broken JSON."""
    try:
        read = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError:
        raise refused(400, "INVALID_DATA", "the body is no JSON") from None
    return read if isinstance(read, dict) else {}
