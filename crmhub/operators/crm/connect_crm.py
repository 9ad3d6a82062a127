"""Connect an account to its CRM by OAuth: by an operator, or by a customer who got a link.

A person's visit to the CRM's page is a stored request of ten minutes. The CRM gets its id in
`state`, signed together with the cookie of the person's browser, so that no other browser can end
the visit. A visit ends once, whatever comes of it. A link for a customer is a stored request of
some days, from which visits begin until one of them succeeds, and as long as its author may change
the account. Nothing of the account changes before the CRM has accepted the new tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from crmhub import audit
from crmhub.accounts.accounts import Account
from crmhub.adapter import NEEDED_FOR_COPY, Adapter, Linked, OAuth, features
from crmhub.audit import Author
from crmhub.database.connection import Connection, now_ms
from crmhub.database.rows import find_row
from crmhub.database.tables import admin_token
from crmhub.errors import Conflict, Forbidden, HubError, NotFound, Semantic
from crmhub.hub import Hub, in_transaction
from crmhub.operators.crm import connect_requests, oauth_code, set_crm
from crmhub.operators.crm.connect_requests import open_request, sign_request
from crmhub.operators.crm.set_crm import Crm, load_adapter
from crmhub.operators.crm.switch_crm import Decision
from crmhub.records.search.filters import iso
from crmhub.secrets import SealBroken, new_secret, new_webhook_id
from crmhub.translatable import as_text, translatable
from crmhub.users import users
from crmhub.users.roles import RIGHTS_OF

_VISIT_MS = 10 * 60 * 1000
_DAY_MS = 24 * 3600 * 1000
LINK_DAYS = 7
MOST_LINK_DAYS = 30
NO_ADDRESS = translatable(
    "Connect needs the public address of this service. Set public_url in config/crmhub.toml"
    " (CRMHUB_PUBLIC_URL)."
)
# In place of the refresh token that only the CRM can give.
_TO_COME = "to come"
_APP = ("client_id", "client_secret")
# What the hub accesses by optional methods of adapters, beside contacts.
_COMPANIES = translatable("companies")
_LINKED: Mapping[Linked, str] = {"deals": translatable("deals"), "tickets": translatable("tickets")}
_ADDED = {"add_note": translatable("notes"), "create_task": translatable("tasks")}
_READ = {
    "owners": translatable("users"),
    "pipelines": translatable("pipelines"),
    "describe": translatable("fields"),
}
_LINK_USED = translatable("This link was used already. Ask the sender for a new one.")
_LINK_OVER = translatable("This link has expired. Ask the sender for a new one.")
_VISIT_OVER = translatable("You took longer than ten minutes. Nothing was changed. Connect again.")
_VISIT_USED = translatable("This approval was used already. Nothing was changed.")
_NO_RIGHT = translatable(
    "Whoever began this may not change the account any more. Nothing was changed. Ask the operator"
    " of the hub for a new link."
)
_FOREIGN = translatable(
    "This approval does not belong to this browser. Nothing was changed. Connect again, in the"
    " browser in which you approve."
)


@dataclass(frozen=True, slots=True)
class _Request:
    """`link`: the id of the link from which a visit began, or "".

    `expected`: the `fingerprint` of the account that the operator saw.
    """

    crm: Crm
    by: Author
    expected: str
    queued: Decision | None = None
    link: str = ""
    verifier: str = ""
    redirect_uri: str = ""

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> _Request:
        given = dict(content)
        return cls(crm=Crm(**given.pop("crm")), by=Author(**given.pop("by")), **given)


@dataclass(frozen=True, slots=True)
class Link:
    """`token` is secret; `expires_at` in ms since 1970."""

    token: str
    expires_at: int

    def url(self, base: str) -> str:
        return f"{base}/console/connect/link/{self.token}"


@dataclass(frozen=True, slots=True)
class Invitation:
    """What a link asks of a customer.

    `sender`: the email of the console user who made the link, "" if a program did. `changes`,
    `adds`, `reads`: the kinds of records and other things of the CRM that the hub then accesses.
    """

    account_name: str
    crm: str
    sender: str
    changes: tuple[str, ...]
    adds: tuple[str, ...]
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Connected:
    """`crm_account`: the id of the CRM's account, or "". `by_link`: a customer did it."""

    client_id: str
    account_name: str
    crm: str
    crm_account: str
    by_link: bool


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a visit began: `visit_id` in an account's form, `link` is a link's token; else ""."""

    visit_id: str
    link: str


# --- beginning ---------------------------------------------------------------------------------


def start(
    hub: Hub,
    client_id: str,
    crm: Crm,
    *,
    by: Author,
    browser: str,
    redirect_uri: str,
    queued: Decision | None = None,
    expected: str | None = None,
) -> str:
    """Return the address at the CRM to which to send the operator's browser.

    `browser`: the secret of its cookie. Raises NotFound; Semantic if the CRM cannot be connected
    so; Conflict as `set_crm` does.
    """
    account = hub.load_account(client_id)
    request = _prepared(hub, account, crm, by, queued, expected)
    return _visit(hub, account, replace(request, redirect_uri=redirect_uri), browser)


def make_link(
    hub: Hub,
    client_id: str,
    crm: Crm,
    *,
    by: Author,
    queued: Decision | None = None,
    expected: str | None = None,
    days: int = LINK_DAYS,
) -> Link:
    """A customer connects the account by it, once; raises as `start` does."""
    if not 1 <= days <= MOST_LINK_DAYS:
        raise Semantic("days: a link is valid for 1 to %(most)s days", most=MOST_LINK_DAYS)
    account = hub.load_account(client_id)
    request = _prepared(hub, account, crm, by, queued, expected)
    link_id, expires_at = new_webhook_id(), now_ms() + days * _DAY_MS
    _store_link(hub, account, link_id, request, expires_at)
    return Link(sign_request(hub, account, link_id, expires_at, "link"), expires_at)


def require_public_url(hub: Hub) -> str:
    if hub.settings.public_url is None:
        raise Semantic(NO_ADDRESS)
    return hub.settings.public_url


def open_link(hub: Hub, token: str) -> Invitation:
    """Return what a link is for; raises NotFound, and Conflict if it is over or was used."""
    account, _, request = _opened_link(hub, token)
    adapter = load_adapter(hub, request.crm.adapter)
    settings = set_crm.settings_of(set_crm.base_of(hub, account, request.crm), request.crm)
    supported = features(adapter)
    linked = [
        _LINKED[kind]
        for kind, needed in adapter.linked_kinds.items()
        if not needed or settings.get(needed)
    ]
    copied = [_COMPANIES] if supported >= NEEDED_FOR_COPY else []
    return Invitation(
        account.name,
        adapter.title,
        sender=request.by.name if request.by.kind == "user" else "",
        changes=(translatable("contacts"), *copied, *linked),
        adds=tuple(name for method, name in _ADDED.items() if method in supported),
        reads=tuple(name for method, name in _READ.items() if method in supported),
    )


def start_by_link(hub: Hub, token: str, *, browser: str, redirect_uri: str) -> str:
    """Begin a customer's visit; raises as `start` and `open_link` do."""
    account, link_id, link = _opened_link(hub, token)
    try:
        request = _prepared(hub, account, link.crm, link.by, link.queued, link.expected)
    except Conflict as exc:
        raise Conflict(
            "The account's CRM was changed after this link was made. Ask the sender for a new one."
        ) from exc
    request = replace(request, link=link_id, redirect_uri=redirect_uri)
    return _visit(hub, account, request, browser)


def _prepared(
    hub: Hub,
    account: Account,
    crm: Crm,
    by: Author,
    queued: Decision | None,
    expected: str | None,
) -> _Request:
    set_crm.require_changeable(hub, account, crm, queued, expected)
    adapter, base = load_adapter(hub, crm.adapter), set_crm.base_of(hub, account, crm)
    oauth = _oauth(adapter, set_crm.settings_of(base, crm))
    app = {name: crm.credentials[name] for name in _APP if crm.credentials.get(name)}
    has_stored = base.connection.adapter == crm.adapter
    stored = (set_crm.stored_secrets(hub, base) if has_stored else None) or {}
    if missing := [name for name in _APP if not app.get(name) and not stored.get(name)]:
        labels = {setting.name: as_text(setting.label) for setting in adapter.settings}
        fields = [
            (name, translatable("Connect needs the %(label)s.", label=labels.get(name, name)))
            for name in missing
        ]
        raise Semantic(
            "secrets.%(name)s: Connect needs %(names)s of your app",
            fields=fields,
            name=missing[0],
            names=" and ".join(missing),
        )
    # What OAuth replaces is removed, and sent nowhere.
    credentials = {**dict.fromkeys(oauth.replaces, ""), **app, "refresh_token": _TO_COME}
    crm = replace(crm, credentials=credentials)
    set_crm.resolve(hub, base, crm)
    return _Request(crm, by, set_crm.fingerprint(account), queued or "finish")


def _oauth(adapter: type[Adapter], settings: Mapping[str, str]) -> OAuth:
    """Raises Semantic if the adapter cannot be connected by OAuth with these settings."""
    declared = [setting for setting in adapter.settings if not setting.secret]
    complete = {setting.name: settings.get(setting.name) or setting.default for setting in declared}
    oauth = adapter.oauth(complete)
    if oauth is None:
        raise Semantic(
            "%(title)s cannot be connected by OAuth with these settings.", title=adapter.title
        )
    return oauth


def _visit(hub: Hub, account: Account, request: _Request, browser: str) -> str:
    if account.disabled:
        raise Forbidden("This account is disabled. Nothing was changed.")
    settings, credentials = set_crm.resolve(
        hub, set_crm.base_of(hub, account, request.crm), request.crm
    )
    visit_id, expires_at = new_webhook_id(), now_ms() + _VISIT_MS
    request = replace(request, verifier=new_secret())
    address = oauth_code.authorize_url(
        _oauth(load_adapter(hub, request.crm.adapter), settings),
        client_id=credentials["client_id"],
        redirect_uri=request.redirect_uri,
        state=sign_request(hub, account, visit_id, expires_at, f"visit {browser}"),
        verifier=request.verifier,
    )
    hub.database.transact(
        lambda tx: connect_requests.add(hub, tx, account, visit_id, asdict(request), expires_at)
    )
    return address


@in_transaction
def _store_link(
    hub: Hub, tx: Connection, account: Account, link_id: str, request: _Request, expires_at: int
) -> None:
    connect_requests.add(hub, tx, account, link_id, asdict(request), expires_at)
    after = {"adapter": request.crm.adapter, "expiresAt": iso(expires_at)}
    audit.note(tx, request.by, "create", "connectLink", link_id, account_id=account.id, after=after)


# --- ending ------------------------------------------------------------------------------------


def finish(hub: Hub, state: str, *, code: str, error: str, browser: str, user_id: str) -> Connected:
    """Exchange the code for tokens, test the connection, and store it.

    `state`, `code` and `error` ("" if the person approved) come from the CRM. `user_id`: the
    signed-in console user, or "". Only without an error the account is changed. Raises Forbidden
    for another browser's or user's visit, Conflict if it is over or the CRM was changed meanwhile,
    Semantic if the person denied or the CRM refuses, Unavailable if the CRM does not answer.
    """
    account, visit_id = open_request(
        hub, state, f"visit {browser}", Forbidden(_FOREIGN), _VISIT_OVER
    )
    visit = _load(hub, account, visit_id, _VISIT_USED)
    crm = load_adapter(hub, visit.crm.adapter).title
    if not visit.link and visit.by.id != user_id:
        raise Forbidden("You are signed in as somebody else now. Nothing was changed.")
    if not hub.database.transact(lambda tx: connect_requests.use(tx, account.id, visit_id)):
        raise Conflict(_VISIT_USED)
    if account.disabled:
        raise Forbidden("This account is disabled. Nothing was changed.")
    if error or not code:
        raise oauth_code.denied(crm, error)
    if visit.link:
        _load(hub, account, visit.link, f"{_LINK_USED} Nothing was changed.")
    approved = _exchange(hub, account, visit, code, crm)
    return Connected(account.client_id, account.name, crm, approved, bool(visit.link))


def _exchange(hub: Hub, account: Account, visit: _Request, code: str, crm: str) -> str:
    """Return the id of the connected account of the CRM, or ""."""
    base = set_crm.base_of(hub, account, visit.crm)
    settings, credentials = set_crm.resolve(hub, base, visit.crm)
    refresh_token, approved = oauth_code.exchange(
        hub.egress,
        _oauth(load_adapter(hub, visit.crm.adapter), settings),
        credentials,
        code=code,
        redirect_uri=visit.redirect_uri,
        verifier=visit.verifier,
        crm=crm,
    )
    present = account.connection
    # Another account of the CRM has other contact ids.
    if visit.crm.adapter == present.adapter and present.crm_account not in ("", approved):
        raise Conflict(
            "You approved another %(crm)s account (%(approved)s) than the connected one"
            " (%(present)s). Nothing was changed. Connect again, and choose %(present)s in"
            " %(crm)s.",
            crm=crm,
            approved=approved or translatable("unknown"),
            present=present.crm_account,
        )
    credentials = {**visit.crm.credentials, "refresh_token": refresh_token}
    by = replace(visit.by, name=f"{visit.by.name} (link)") if visit.link else visit.by
    set_crm.set_crm(
        hub,
        account.client_id,
        replace(visit.crm, credentials=credentials, crm_account=approved),
        by=by,
        test=True,
        queued=visit.queued,
        expected=visit.expected,
        # In the same transaction: a process that is killed before leaves a link that still works,
        # and of two visits from one link only one succeeds.
        extra_writes=partial(_use_link, account.id, visit.link) if visit.link else None,
    )
    return approved


def _use_link(account_id: int, link_id: str, tx: Connection) -> None:
    if not connect_requests.use(tx, account_id, link_id):
        raise Conflict(
            "This link was used already. Ask the sender for a new one. Nothing was changed."
        )


# --- after a failure ---------------------------------------------------------------------------


def origin_of(hub: Hub, state: str, *, browser: str) -> Origin | None:
    """Return where the visit with this `state` began; None unless this browser made the visit."""
    try:
        account, visit_id = open_request(
            hub, state, f"visit {browser}", Forbidden(_FOREIGN), over=None
        )
        visit = _stored(hub, account, visit_id)
        if visit is None:
            return None
        link_id = _Request.of(visit.request).link
        link = _stored(hub, account, link_id) if link_id else None
    except HubError:
        return None
    if link is None or link.used_at or link.expires_at <= now_ms():
        return Origin("" if link_id else visit_id, "")
    return Origin("", sign_request(hub, account, link_id, link.expires_at, "link"))


def typed_crm(hub: Hub, account: Account, visit_id: str, *, user_id: str) -> Crm | None:
    stored = _stored(hub, account, visit_id) if visit_id else None
    visit = _Request.of(stored.request) if stored else None
    if visit is None or visit.link or not visit.redirect_uri or visit.by.id != user_id:
        return None
    typed = {name: text for name in _APP if (text := visit.crm.credentials.get(name))}
    return replace(visit.crm, credentials=typed)


# --- stored requests ---------------------------------------------------------------------------


def _opened_link(hub: Hub, token: str) -> tuple[Account, str, _Request]:
    invalid = NotFound("This link is not valid. Ask the sender for a new one.")
    account, link_id = open_request(hub, token, "link", invalid, _LINK_OVER)
    if account.disabled:
        raise Forbidden("This account is disabled.")
    return account, link_id, _load(hub, account, link_id, _LINK_USED)


def _stored(hub: Hub, account: Account, request_id: str) -> Any:
    try:
        with hub.database.reading() as db:
            return connect_requests.load(db, hub.vault, account.id, request_id)
    except SealBroken as exc:
        raise Conflict("The encryption key was changed meanwhile. Begin again.") from exc


def _load(hub: Hub, account: Account, request_id: str, used: str) -> _Request:
    """Raises Conflict if it was used, and Forbidden if its author may not change the account."""
    stored = _stored(hub, account, request_id)
    if stored is None or stored.used_at:
        raise Conflict(used)
    request = _Request.of(stored.request)
    with hub.database.reading() as db:
        if not _may_change(db, account, request.by):
            raise Forbidden(_NO_RIGHT)
    return request


def _may_change(db: Connection, account: Account, by: Author) -> bool:
    """Return False for a user who has lost the right or the account, and for a revoked token."""
    if by.kind == "token":
        row = find_row(db, admin_token, {"id": by.id})
        return row is not None and row.revoked_at is None
    if by.kind != "user":
        return True
    try:
        user = users.load_by_id(db, by.id)
    except NotFound:
        return False
    sees = user.accounts is None or account.id in user.accounts
    return sees and user.disabled_at is None and "change" in RIGHTS_OF[user.role]
