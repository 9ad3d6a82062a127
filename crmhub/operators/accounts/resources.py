"""Accounts, plans, adapters and enrolments, as operators see them, and what they do with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from crmhub.errors import NotFound
from crmhub.operators.resources import (
    WITH_BODY,
    WITHOUT_BODY,
    Argument,
    Column,
    Resource,
    Verb,
    inside,
)

if TYPE_CHECKING:
    from crmhub.accounts.accounts import Account
    from crmhub.accounts.plans import Plan
    from crmhub.accounts.webhook_ids import Rotatable
    from crmhub.adapter.registry import Installed
    from crmhub.audit import Author
    from crmhub.hub import Hub

_HERE = "crmhub.operators.accounts.resources"
_ONCE = "Shown this once: the hub keeps a hash of it."
_RATE = 'Calls in a window, such as "1000/10s"; null: no limit.'
_LONGEST_ID = 255

# --- accounts --------------------------------------------------------------------------------

LISTED = Resource(
    "AccountListed",
    (
        Column("clientId", title="Client id"),
        Column("name", title="Name", shorten=1),
        Column("plan", of="plan.name", title="Plan"),
        Column("adapter", of="connection.adapter", title="Adapter"),
        Column("disabled", "flag"),
        Column("", of=lambda it: "disabled" if it.disabled else "live", title="State"),
        Column("createdAt", "moment"),
    ),
    page="AccountPage",
)
OPENED = Resource(
    "OpenedAccount",
    (
        Column("clientId", title="Client id"),
        Column("apiKey", "text", _ONCE, "API key"),
        Column("generatedId", title="Generated id"),
        Column("portalId", title="Portal id"),
        Column("webhookSecret", "text", _ONCE, "Webhook secret"),
    ),
)
OLD_ID = Resource("OldId", (Column("id", of="value"), Column("expiresAt", "moment")))


def ids_of(purpose: str) -> Any:
    return lambda detail: [id for id in detail.ids if id.purpose == purpose]


def _value(purpose: str) -> Any:
    return lambda detail: next((id.value for id in ids_of(purpose)(detail)), "")


OLD_IDS = Resource(
    "OldIds",
    (
        Column("generated", OLD_ID, of=lambda it: ids_of("generated")(it)[1:], many=True),
        Column("portal", OLD_ID, of=lambda it: ids_of("portal")(it)[1:], many=True),
    ),
)
_SECRETS = Column(
    "secrets", "words", "Names of the stored ones; null: they cannot be opened.", null=True
)
OWN_CONNECTION = Resource(
    "OwnConnection",
    (
        Column("id", "number", of="account.connection.id", least=1),
        Column("settings", "texts", of="account.connection.settings"),
        _SECRETS,
    ),
)
FORMER = Resource(
    "Former",
    (
        Column("id", "number", least=1),
        Column("adapter"),
        Column("queued", "number", least=0),
        Column("running", "number", least=0),
    ),
)
RESTORABLE = Resource(
    "Restorable",
    (Column("id", "number", least=1), Column("adapter"), Column("leftAt", "moment")),
)
WEBHOOKS = Resource(
    "CrmWebhooks",
    (
        Column("address", says='Where the CRM may send webhooks; "" if its adapter reads none.'),
        Column("byHub", "flag", "Whether the hub can set them up itself, for a copy."),
        Column("setAt", "moment", "When the hub last set them up or renewed them.", null=True),
        Column("until", "moment", "When they end unless the hub renews them.", null=True),
        Column("problem", says='Why the hub does not set them up; "" if it does.'),
    ),
)
CONNECTION = Resource(
    "Connection",
    (
        Column("adapter", of="account.connection.adapter"),
        *OWN_CONNECTION.columns,
        Column("former", FORMER, many=True),
        Column("restorable", RESTORABLE, of="past", many=True),
        Column("webhooks", WEBHOOKS, of="watch"),
    ),
)
ROTATED = Resource(
    "Rotated",
    (
        Column("generated", always=False),
        Column("portal", always=False),
        Column("secret", "text", _ONCE, always=False),
        Column("oldValidUntil", "moment"),
    ),
)


def list_accounts(hub: Hub, *, limit: int, after: int | None = None) -> list[Account]:
    from crmhub.accounts import accounts

    with hub.database.reading() as db:
        return accounts.list_accounts(db, hub.plans, after=after or 0, limit=limit)


def open_account(hub: Hub, *, by: Author, **values: Any) -> Mapping[str, str]:
    from crmhub.operators.accounts import open_account as opening

    account, issued = opening.open_account(hub, by=by, **values)
    return {"client_id": account.client_id, **asdict(issued)}


def rotate(
    hub: Hub, client_id: str, *, what: Rotatable, keep_old: int | None = None, by: Author
) -> Mapping[str, Any]:
    from crmhub.accounts.webhook_ids import WEEK_MS
    from crmhub.operators.accounts import change_account

    keep_ms = WEEK_MS if keep_old is None else keep_old
    value, until = change_account.rotate(hub, client_id, what, keep_ms=keep_ms, by=by)
    return {what: value, "old_valid_until": until}


def _switches() -> Resource:
    from crmhub.accounts.switches import Switches

    kinds = {bool: "flag", float: "decimal", int: "number", str: "text"}
    shown = {**asdict(Switches()), "portal_alias": ""}
    columns = (
        Column(name, kinds[type(default)], of=_switch(name)) for name, default in shown.items()
    )
    return Resource("Switches", tuple(columns))


def _switch(name: str) -> Any:
    if name == "portal_alias":
        return _value("alias")
    return f"account.switches.{name}"


ACCOUNT = Resource(
    "Account",
    (
        *inside("account", (each for each in LISTED.columns if each.wire)),
        Column("switches", _switches, of=lambda it: it),
        Column("connection", OWN_CONNECTION, of=lambda it: it),
        Column("generatedId", of=_value("generated")),
        Column("portalId", of=_value("portal")),
        Column("oldIds", OLD_IDS, of=lambda it: it),
    ),
)

_NAME = (("minLength", 1), ("maxLength", 200))
ACCOUNT_VERBS = (
    Verb(
        operation="listAccounts",
        route="GET /accounts",
        scope="accounts:read",
        does=f"{_HERE}:list_accounts",
        summary="List the accounts, the oldest first",
        input="AccountsQuery",
        shows=LISTED,
        many=True,
        place=lambda account: account.id,
    ),
    Verb(
        operation="createAccount",
        route="POST /accounts",
        status=201,
        scope="accounts:write",
        does=f"{_HERE}:open_account",
        summary="Open an account, with an API key for everything",
        input="AccountInput",
        arguments=(
            Argument("name", "text", "What people call it.", required=True, shape=_NAME),
            Argument(
                "client_id",
                "text",
                "Its id in addresses; without one it is made from the name.",
                shape=(("pattern", "^[a-z0-9][a-z0-9_-]{0,62}$"),),
            ),
            Argument("adapter", "text", "Its CRM.", shape=(("default", "local"),)),
            Argument("plan", "text", "Its plan.", shape=(("default", "default"),)),
        ),
        shows=OPENED,
    ),
    Verb(
        operation="getAccount",
        route="GET /accounts/<client_id>",
        scope="accounts:read",
        does="crmhub.operators.accounts.change_account:detail",
        summary="Read an account with its switches and ids",
        shows=ACCOUNT,
    ),
    Verb(
        operation="rotateWebhookId",
        route="POST /accounts/<client_id>/webhook-ids/rotate",
        scope="accounts:write",
        errors=WITH_BODY,
        does=f"{_HERE}:rotate",
        summary="Replace a webhook id or the webhook secret",
        input="RotateInput",
        arguments=(
            Argument(
                "what",
                "choice",
                "The generated id, the portal id, or the webhook secret.",
                required=True,
                words="crmhub.accounts.webhook_ids:ROTATABLE",
            ),
            Argument(
                "keep_old",
                "age",
                "How long the old one stays valid: 7d when not given, 0s to end it at once.",
            ),
        ),
        shows=ROTATED,
    ),
    Verb(
        operation="getConnection",
        route="GET /accounts/<client_id>/connection",
        scope="accounts:read",
        does="crmhub.operators.accounts.change_account:detail",
        summary="Read which CRM an account uses",
        shows=CONNECTION,
    ),
)

# --- plans and adapters ----------------------------------------------------------------------


def _rate(of: str) -> Any:
    def text(plan: Plan) -> str | None:
        rate = getattr(plan, of)
        return None if rate is None else str(rate)

    return text


PLAN = Resource(
    "Plan",
    (
        Column("name"),
        Column("rateLimit", "text", _RATE, of=_rate("rate_limit"), null=True),
        Column("keyRateLimit", "text", _RATE, of=_rate("key_rate_limit"), null=True),
        Column(
            "quotas",
            "numbers",
            "How many records of a kind; a kind that is missing has no limit.",
        ),
    ),
)
SETTING = Resource(
    "Setting",
    (
        Column("name"),
        Column("label"),
        Column("type"),
        Column("help"),
        Column("default"),
        Column("choices", "words"),
        Column("secret", "flag", "It belongs among the secrets."),
        Column("required", "flag"),
    ),
)
ADAPTER = Resource(
    "Adapter",
    (
        Column("name"),
        Column("title"),
        Column("version"),
        Column("distribution"),
        Column(
            "features",
            "words",
            "What it can do beside the least.",
            of=lambda it: sorted(it.features),
        ),
        Column("settings", SETTING, many=True),
        Column("error", "text", 'Why it cannot be used; "" when it can.'),
    ),
)


def list_plans(hub: Hub) -> list[Plan]:
    return [plan for _, plan in sorted(hub.plans.items())]


def list_adapters(hub: Hub) -> list[Installed]:
    return hub.registry.installed()


def find_adapter(hub: Hub, adapter_name: str) -> Installed:
    for adapter in hub.registry.installed():
        if adapter.name == adapter_name:
            return adapter
    known = ", ".join(hub.registry.names)
    raise NotFound(
        "There is no adapter %(adapter)s; installed are %(known)s.",
        adapter=repr(adapter_name[:60]),
        known=known,
    )


INSTALLED_VERBS = (
    Verb(
        operation="listPlans",
        route="GET /plans",
        scope="accounts:read",
        does=f"{_HERE}:list_plans",
        summary="List the plans that accounts can be on",
        shows=PLAN,
        many=True,
    ),
    Verb(
        operation="listAdapters",
        route="GET /adapters",
        scope="accounts:read",
        does=f"{_HERE}:list_adapters",
        summary="List the installed adapters with their settings",
        shows=ADAPTER,
        many=True,
    ),
    Verb(
        operation="getAdapter",
        route="GET /adapters/<adapter_name>",
        scope="accounts:read",
        does=f"{_HERE}:find_adapter",
        summary="Read an adapter's settings",
        shows=ADAPTER,
    ),
)

# --- enrolments ------------------------------------------------------------------------------

ENROLMENT = Resource(
    "Enrolment",
    (Column("workflowId"), Column("contactId"), Column("enrolledAt", "moment", of="at")),
)
_ENROLMENT = "/accounts/<client_id>/workflows/<workflow_id>/enrolments/<contact_id>"


def list_enrolments(
    hub: Hub, account: Account, *, limit: int, after: Sequence[str] | None = None, **filters: str
) -> Sequence[Any]:
    from crmhub.helpers import enrolments

    contact_id, workflow_id = after or ("", "")
    with hub.database.reading() as db:
        return enrolments.listed(
            db, account, **filters, after=(contact_id, workflow_id), limit=limit
        )


ENROL = Verb(
    operation="enrolContactOfAccount",
    route=f"PUT {_ENROLMENT}",
    scope="accounts:write",
    command="enrol",
    does="crmhub.helpers.enrolments:enrol",
    summary="Note that a contact entered a workflow now; again: anew",
    help="CONTACT_ID is the contact's id in the account's CRM.",
    says="Contact {contact_id} is in workflow {workflow_id}.",
)
UNENROL = Verb(
    operation="unenrolContactOfAccount",
    route=f"DELETE {_ENROLMENT}",
    scope="accounts:write",
    errors=WITHOUT_BODY,
    command="unenrol",
    does="crmhub.helpers.enrolments:unenrol",
    summary="Forget that a contact entered a workflow",
    says="Contact {contact_id} is no longer in workflow {workflow_id}.",
)
ENROLMENT_VERBS = (
    Verb(
        operation="listEnrolments",
        route="GET /accounts/<client_id>/enrolments",
        scope="accounts:read",
        does=f"{_HERE}:list_enrolments",
        summary="List the enrolments on the present CRM",
        input="EnrolmentsQuery",
        arguments=(
            Argument("workflow_id", "filled", "Of this workflow.", longest=_LONGEST_ID),
            Argument(
                "contact_id",
                "filled",
                "Of the contact with this id in the CRM.",
                longest=_LONGEST_ID,
            ),
        ),
        shows=ENROLMENT,
        many=True,
        place=lambda enrolment: [enrolment.contact_id, enrolment.workflow_id],
    ),
    ENROL,
    UNENROL,
)
