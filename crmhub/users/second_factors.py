"""Second factors of console users: time-based codes (TOTP, RFC 6238) and recovery codes.

A code is accepted once: it belongs to a time step of 30 s, and the last accepted step is stored.
"""

from __future__ import annotations

import re
import time
from typing import Any

import pyotp
import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.rows import delete_where, insert_row, set_where
from crmhub.database.statements import Statement, count_of, equals, param
from crmhub.database.tables import console_recovery_code, console_user
from crmhub.secrets import BASE36, Vault, digest, same, token

RECOVERY_CODES = 10
_STEP_S = 30
# Codes of the step before and after are accepted, since clocks differ (RFC 6238, 5.2).
_DRIFT = 1
_CODE = re.compile(r"[0-9]{6}", re.ASCII)
_RECOVERY_BITS = 80
_SEPARATORS = re.compile(r"[\s-]+")

_user = console_user.c
_IS_USER = _user.id == param("id")
_ACCEPT = Statement(
    sa.update(console_user)
    .where(_IS_USER, _user.totp == param("totp"), _user.totp_step < param("step"))
    .values(totp_step=param("step"))
)
_SEALED = Statement(
    sa.select(_user.id, _user.email, _user.totp).where(_user.totp != "").order_by(_user.id)
)
_COUNT_RECOVERY = count_of(console_recovery_code, *equals(console_recovery_code, "user_id"))


def new_secret() -> str:
    return pyotp.random_base32()


def uri(secret: str, email: str) -> str:
    """Return the `otpauth://` URI that authenticator apps read from a QR code."""
    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name="crmhub")


def matching_step(secret: str, code: str) -> int | None:
    """Return the time step of a code, the present or a neighbouring one; None for a wrong code."""
    code = _SEPARATORS.sub("", code)
    if not _CODE.fullmatch(code):
        return None
    now = int(time.time()) // _STEP_S
    codes = pyotp.TOTP(secret)
    for step in (now, now - _DRIFT, now + _DRIFT):
        if same(codes.generate_otp(step), code):
            return step
    return None


def turn_on(tx: Connection, vault: Vault, user_id: str, secret: str, step: int) -> list[str]:
    """Return new recovery codes. The code of the time step `step` is not accepted again."""
    sealed = vault.seal(secret, account_id=0, column=column_of(user_id))
    set_where(tx, console_user, {"id": user_id}, totp=sealed, totp_step=step)
    return replace_recovery_codes(tx, user_id)


def turn_off(tx: Connection, user_id: str) -> None:
    set_where(tx, console_user, {"id": user_id}, totp="", totp_step=0)
    delete_where(tx, console_recovery_code, {"user_id": user_id})


def replace_recovery_codes(tx: Connection, user_id: str) -> list[str]:
    delete_where(tx, console_recovery_code, {"user_id": user_id})
    codes = [token(_RECOVERY_BITS, BASE36) for _ in range(RECOVERY_CODES)]
    for code in codes:
        insert_row(tx, console_recovery_code, {"user_id": user_id, "digest": digest(code)})
    return ["-".join(re.findall("....", code)) for code in codes]


def count_recovery_codes(db: Connection, user_id: str) -> int:
    return int(db.scalar(_COUNT_RECOVERY, {"user_id": user_id}))


def accept(tx: Connection, vault: Vault, user_id: str, sealed: str, code: str) -> bool:
    """Use up a time-based or recovery code, if it is right; raises SealBroken."""
    plain = _SEPARATORS.sub("", code).lower()
    if not _CODE.fullmatch(plain):
        used = {"user_id": user_id, "digest": digest(plain)}
        return delete_where(tx, console_recovery_code, used) > 0
    secret = vault.open(sealed, account_id=0, column=column_of(user_id))
    step = matching_step(secret, plain)
    return step is not None and tx.run(_ACCEPT, {"id": user_id, "totp": sealed, "step": step}) > 0


# --- change of the encryption key --------------------------------------------------------------


def column_of(user_id: str) -> str:
    """The name under which the secret is encrypted; it binds the secret to the user."""
    return f"console_user.totp/{user_id}"


def sealed_secrets(db: Connection) -> list[Any]:
    """Return (user id, email, encrypted secret) of all users with a second factor."""
    return db.rows(_SEALED)


def reseal(tx: Connection, vault: Vault, user_id: str, sealed: str) -> bool:
    """Encrypt a user's secret with the first key, unless it has changed; raises SealBroken."""
    column = column_of(user_id)
    plain = vault.open(sealed, account_id=0, column=column)
    new = vault.seal(plain, account_id=0, column=column)
    return set_where(tx, console_user, {"id": user_id, "totp": sealed}, totp=new) > 0
