from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote, urlencode, urlsplit

from crmhub.adapter.errors import BadConfig, NotFound

_LONGEST_SEGMENT = 500

Params = Mapping[str, str | Sequence[str]]
"""Query parameters; a parameter with several values is repeated."""


def check_address(base_url: str) -> str:
    """Return the CRM's address without a slash at its end; raise BadConfig for an unusable one."""
    try:
        parts = urlsplit(base_url)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    # The message omits the address, which may contain a password.
    if not usable or parts.username or parts.query or parts.fragment:
        raise BadConfig(
            "The address of the CRM is none that can be called; give one like https://host/path,"
            " without user, password, ? and #."
        )
    return base_url.rstrip("/")


def after_base(crm: str, path: Iterable[str], params: Params | None, *, slash: bool) -> str:
    """Raises NotFound for a segment that leads elsewhere, UnicodeEncodeError for a surrogate."""
    encoded = ""
    for segment in path:
        refused = segment in ("", ".", "..") or len(segment) > _LONGEST_SEGMENT
        if refused or "/" in segment or "\\" in segment or not segment.isprintable():
            # The message omits the segment, which may be an email.
            raise NotFound(f"{crm} has nothing under an id of this form")
        encoded += f"/{quote(segment, safe='')}"
    if slash:
        encoded += "/"
    return f"{encoded}?{urlencode(params, doseq=True)}" if params else encoded
