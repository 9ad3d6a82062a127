"""Signed texts that name a stored request of an account, for addresses that people are sent to.

The text is `<client id>.<request id>.<end in ms>.<signature>`. The signature belongs to a purpose,
so that a text of one purpose serves no other.
"""

from __future__ import annotations

from crmhub.accounts.accounts import Account
from crmhub.database.connection import now_ms
from crmhub.errors import Conflict, HubError
from crmhub.hub import Hub
from crmhub.secrets import derive, same, sign


def sign_request(hub: Hub, account: Account, request_id: str, expires_at: int, purpose: str) -> str:
    """Return the signed text for a stored request, which ends at `expires_at` (ms since 1970)."""
    text = f"{account.client_id}.{request_id}.{expires_at}"
    return f"{text}.{_signature(hub, text, purpose)}"


def open_request(
    hub: Hub, signed: str, purpose: str, foreign: HubError, over: str | None
) -> tuple[Account, str]:
    """Return the account and the id of the request that a signed text names.

    Raises `foreign` if it was not signed for this purpose, and Conflict with the message `over` if
    it has ended; None opens it all the same. Unless a user is signed in, this thread then works for
    the account (`Database.bind_account`).
    """
    text, _, signature = signed.rpartition(".")
    if not same(signature, _signature(hub, text, purpose)):
        raise foreign
    client_id, request_id, expires_at = text.split(".")
    if over is not None and now_ms() >= int(expires_at):
        raise Conflict(over)
    with hub.database.across_accounts():
        account = hub.load_account(client_id)
    if not hub.database.account:
        # Nobody is signed in: the text alone tells for which account this request works.
        hub.database.bind_account(account.id)
    return account, request_id


def _signature(hub: Hub, text: str, purpose: str) -> str:
    key = derive(hub.settings.secret_key, "connect")
    return sign(key, f"{purpose} {text}".encode()).hex()
