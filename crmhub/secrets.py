from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import math
import re
import secrets
import string
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
# Lower case only, since some builders change the case of URLs.
BASE36 = string.digits + string.ascii_lowercase

API_KEY_PREFIX = "crmhub_"
ADMIN_TOKEN_PREFIX = "crmhub_admin_"
_CHECKED = re.compile(r"([0-9A-Za-z]{30})([0-9A-Za-z]{6})", re.ASCII)
_CHECKED_BITS = 178

_LONGEST_SECRET = 65_536
_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
_KEY_BYTES = 32
_NONCE_BYTES = 12


def token(bits: int, alphabet: str = BASE62) -> str:
    """At least `bits` random bits."""
    base = len(alphabet)
    length = math.ceil(bits / math.log2(base))
    rest = secrets.randbelow(base**length)
    drawn = []
    for _ in range(length):
        rest, digit = divmod(rest, base)
        drawn.append(alphabet[digit])
    return "".join(drawn)


def time_digits(moment: int) -> str:
    """Return a time in ms since 1970 as text for the start of an id; ids then sort by time."""
    # Nine digits of base 36 last until the year 5188.
    digits = ""
    for _ in range(9):
        moment, digit = divmod(moment, 36)
        digits = BASE36[digit] + digits
    return digits


def new_api_key() -> str:
    """Prefix, 178 random bits, checksum: scanners can find a leaked key, and a mistyped key is
    rejected without a database query."""
    return API_KEY_PREFIX + _with_checksum()


def looks_like_api_key(text: str) -> bool:
    return _is_checked(text, API_KEY_PREFIX)


def new_admin_token() -> str:
    return ADMIN_TOKEN_PREFIX + _with_checksum()


def looks_like_admin_token(text: str) -> bool:
    return _is_checked(text, ADMIN_TOKEN_PREFIX)


def _with_checksum() -> str:
    body = token(_CHECKED_BITS)
    return body + _checksum(body)


def _is_checked(text: str, prefix: str) -> bool:
    match = _CHECKED.fullmatch(text.removeprefix(prefix)) if text.startswith(prefix) else None
    return match is not None and _checksum(match[1]) == match[2]


def _checksum(body: str) -> str:
    rest = zlib.crc32(body.encode())
    digits = ""
    for _ in range(6):
        rest, digit = divmod(rest, 62)
        digits = BASE62[digit] + digits
    return digits


def digest(text: str) -> str:
    """SHA-256 in hex, only for the hub's own random tokens: a password could be guessed."""
    return hashlib.sha256(text.encode()).hexdigest()


def new_webhook_id() -> str:
    """134 random bits as lower-case letters and digits."""
    return token(134, BASE36)


def new_secret() -> str:
    """256 random bits as letters and digits."""
    return token(256)


def same(left: str | bytes, right: str | bytes) -> bool:
    """The time does not depend on the content."""
    return hmac.compare_digest(_bytes(left), _bytes(right))


def read_secret(file: TextIO) -> str:
    """Remove surrounding blanks and a byte order mark.

    Raises ValueError, with a message for users, if the text is too long or not UTF-8.
    """
    try:
        # Read a limited amount: /dev/zero has no end.
        text = file.read(_LONGEST_SECRET + 1)
    except UnicodeDecodeError as exc:
        raise ValueError("it is not UTF-8") from exc
    if len(text) > _LONGEST_SECRET:
        raise ValueError("it is too long for a secret")
    return text.removeprefix("\ufeff").strip()


def derive(secret_key: str | bytes, purpose: str) -> bytes:
    """32 bytes, for one purpose such as "cursor"."""
    return hmac.digest(_bytes(secret_key), b"crmhub/" + purpose.encode(), "sha256")


def sign(key: bytes, payload: bytes) -> bytes:
    """16 bytes; to verify, sign again and compare with `same`."""
    return hmac.digest(key, payload, "sha256")[:16]


@dataclass(frozen=True, slots=True)
class WebhookSecret:
    """By https://www.standardwebhooks.com."""

    key: bytes = field(repr=False)

    def headers(self, id: str, at_s: int, body: bytes) -> dict[str, str]:
        """`at_s`: the time of sending, in s since 1970."""
        signed = hmac.digest(self.key, f"{id}.{at_s}.".encode() + body, "sha256")
        return {
            "webhook-id": id,
            "webhook-timestamp": str(at_s),
            "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
        }


def parse_webhook_secret(text: str) -> WebhookSecret:
    """`whsec_` and 24 to 64 bytes in base64; raises ValueError, without showing the secret."""
    prefix, _, encoded = text.strip().partition("_")
    try:
        key = base64.b64decode(encoded, validate=True) if prefix == "whsec" else b""
    except binascii.Error:
        key = b""
    if not 24 <= len(key) <= 64:
        raise ValueError("is no signing secret; give whsec_ and 24 to 64 random bytes in base64")
    return WebhookSecret(key)


@dataclass(frozen=True, slots=True)
class EncryptionKey:
    id: str
    key: bytes = field(repr=False)


def new_encryption_key(key_id: str) -> str:
    return f"{key_id}:{base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()}"


def parse_encryption_keys(text: str) -> tuple[EncryptionKey, ...]:
    """Parse `id:base64,id:base64,…`; the first key encrypts new values.

    Raises ValueError without showing the key.
    """
    keys = tuple(
        _encryption_key(position, item.strip())
        for position, item in enumerate(text.split(","), start=1)
    )
    ids = [key.id for key in keys]
    if twice := sorted({key_id for key_id in ids if ids.count(key_id) > 1}):
        raise ValueError(f"key id {', '.join(twice)} is given twice; each key needs its own")
    return keys


def _encryption_key(position: int, item: str) -> EncryptionKey:
    key_id, colon, encoded = item.partition(":")
    if not colon or not _KEY_ID.fullmatch(key_id):
        raise ValueError(
            f"key {position} has no id; give id:base64, the id of 1 to 32 letters, digits, - and _"
        )
    unpadded = encoded.strip().rstrip("=").replace("-", "+").replace("_", "/")
    try:
        key = base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    except binascii.Error:
        raise ValueError(f"key {key_id} is not base64") from None
    if len(key) != _KEY_BYTES:
        raise ValueError(f"key {key_id} has {len(key)} bytes; give {_KEY_BYTES}, in base64")
    return EncryptionKey(key_id, key)


class SealBroken(Exception):
    """The key of an encrypted value is missing, or the value was changed."""


class Vault:
    """AES-256-GCM for values of database columns.

    A sealed value can be opened only for its own account and column: an attacker with write access
    to the database cannot move credentials to another account.
    """

    def __init__(self, keys: Sequence[EncryptionKey]) -> None:
        if not keys:
            raise ValueError("A vault needs at least one key.")
        self._active = keys[0].id
        self._ciphers = {key.id: AESGCM(key.key) for key in keys}

    @property
    def first(self) -> str:
        return self._active

    @property
    def key_ids(self) -> tuple[str, ...]:
        return tuple(self._ciphers)

    @property
    def prefix(self) -> str:
        """With it all values begin that the first key has encrypted."""
        return f"v1.{self._active}."

    def seal(self, plain: str | bytes, *, account_id: int, column: str) -> str:
        """Return `v1.<key id>.<base64 of nonce and ciphertext>`."""
        text = plain if isinstance(plain, str) else plain.decode()
        nonce = secrets.token_bytes(_NONCE_BYTES)
        bound = _bound_to(self._active, account_id, column)
        ciphertext = self._ciphers[self._active].encrypt(nonce, text.encode(), bound)
        return self.prefix + base64.b64encode(nonce + ciphertext).decode()

    def open(self, sealed: str, *, account_id: int, column: str) -> str:
        """Raises SealBroken, also for another account or column."""
        version, _, rest = sealed.partition(".")
        key_id, _, encoded = rest.partition(".")
        if version != "v1" or not encoded:
            raise SealBroken(f"{column}: the stored value is not in the form this version seals.")
        if key_id not in self._ciphers:
            raise SealBroken(
                f"{column}: sealed with the key {key_id!r}, which encryption_keys does not name. "
                "Put that key back behind the active one, or set the value again."
            )
        try:
            blob = base64.b64decode(encoded, validate=True)
            plain = self._ciphers[key_id].decrypt(
                blob[:_NONCE_BYTES], blob[_NONCE_BYTES:], _bound_to(key_id, account_id, column)
            )
        except (ValueError, InvalidTag) as exc:
            raise SealBroken(
                f"{column}: the stored value was changed, was sealed for another account or "
                f"column, or the key {key_id!r} is another one than it was. Set the value again."
            ) from exc
        return plain.decode()


def _bound_to(key_id: str, account_id: int, column: str) -> bytes:
    return f"v1.{key_id}.{account_id}.{column}".encode()


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
