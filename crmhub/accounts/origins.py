"""The web origins whose pages may call an account's helpers from a browser.

An origin is scheme, host and port of a page's address, as a browser sends it in the header Origin:
`https://www.example.com`, `http://localhost:3000`.
"""

from __future__ import annotations

import re
from typing import Any

_MOST = 20
_LABEL = r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?"
_ORIGIN = re.compile(
    rf"(https?)://({_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::([0-9]{{1,5}}))?", re.ASCII
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def read_origins(value: Any) -> str:
    """Return origins, separated by commas or blanks, joined by commas in the form of browsers.

    That is lower case, without the default port. Raises ValueError for a text that is no origin,
    such as an address with a path, and for more than 20 origins.
    """
    origins = list(dict.fromkeys(_origin(each) for each in re.split(r"[\s,]+", str(value)) if each))
    if len(origins) > _MOST:
        raise ValueError(f"has {len(origins)} origins; give at most {_MOST}")
    return ",".join(origins)


def _origin(text: str) -> str:
    match = _ORIGIN.fullmatch(text.lower())
    if match is None or int(match[3] or 1) not in range(1, 65536):
        raise ValueError(f"{text[:200]!r} is not an origin; {_remedy(text)}")
    scheme, host, port = match[1], match[2], match[3]
    is_default = port is None or int(port) == int(_DEFAULT_PORTS[scheme])
    return f"{scheme}://{host}" + ("" if is_default else f":{int(port)}")


def _remedy(text: str) -> str:
    if "*" in text:
        return "name each site whose pages may call the helpers"
    if text.lower() == "null":
        return "pages of files and sandboxed frames have none, so anyone could be one of them"
    if not text.isascii():
        return "write the host as browsers send it, in the form xn--…"
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() in _DEFAULT_PORTS and "/" in rest:
        return f"leave out the path: {scheme}://{rest.partition('/')[0]}"[:220]
    if not separator:
        return f"write the scheme, too: https://{text}"[:220]
    return "write scheme, host and port (if it is not the usual one), as https://www.example.com"
