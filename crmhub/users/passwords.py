"""Create and verify password hashes."""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import unicodedata

from crmhub.errors import Semantic, Unavailable
from crmhub.secrets import same

SHORTEST = 12
_LONGEST = 1000

# 2^15, 8, 3: among the equally strong settings of OWASP's Password Storage Cheat Sheet, the one
# with 32 MiB, which leaves memory on a small machine.
_LOG_N, _R, _P = 15, 8, 3
_SALT_BYTES, _KEY_BYTES = 16, 32

# A hash takes half a second of CPU, so only a few run at once.
_AT_ONCE = threading.BoundedSemaphore(2)
_PATIENCE_S = 5.0


def to_store(password: str) -> str:
    """Return the hash; raises Semantic if the password is too short or too long."""
    if not SHORTEST <= len(password) <= _LONGEST:
        raise Semantic(
            "password: it has %(length)s characters; give %(shortest)s to %(longest)s,"
            " such as four or five words of your own.",
            length=len(password),
            shortest=SHORTEST,
            longest=_LONGEST,
        )
    salt = secrets.token_bytes(_SALT_BYTES)
    key = _key(password, salt, log_n=_LOG_N, r=_R, p=_P)
    return "$".join(["scrypt", str(_LOG_N), str(_R), str(_P), _text(salt), _text(key)])


def fits(password: str, stored: str | None) -> bool:
    """None takes as long as a hash, so that the time does not reveal which users exist.

    Raises Unavailable if too many passwords are being checked at once.
    """
    _, log_n, r, p, salt, key = (stored or _NOBODYS).split("$")
    given = _key(password[:_LONGEST], base64.b64decode(salt), log_n=int(log_n), r=int(r), p=int(p))
    return same(given, base64.b64decode(key)) and stored is not None


def _key(password: str, salt: bytes, *, log_n: int, r: int, p: int) -> bytes:
    # Normalize, since keyboards compose accents differently (NIST SP 800-63B, 3.1.1.2).
    text = unicodedata.normalize("NFKC", password).encode("utf-8", "surrogatepass")
    if not _AT_ONCE.acquire(timeout=_PATIENCE_S):
        raise Unavailable("Too many people sign in at once; try again in a moment.", retry_after=5)
    try:
        return hashlib.scrypt(text, salt=salt, n=2**log_n, r=r, p=p, maxmem=2**27, dklen=_KEY_BYTES)
    finally:
        _AT_ONCE.release()


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


_NOBODYS = "$".join(["scrypt", str(_LOG_N), str(_R), str(_P), _text(bytes(16)), _text(bytes(32))])
