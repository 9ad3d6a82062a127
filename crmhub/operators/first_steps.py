"""How far this hub is set up: the account with the most progress towards a lead in its CRM.

The console's checklist shows it. Records that the hub itself stores, without a CRM, do not count.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.database.connection import Connection
from crmhub.database.several_accounts import rows_of_several
from crmhub.database.statements import Statement, param
from crmhub.database.tables import account, binding, connection
from crmhub.hub import Hub
from crmhub.operators.alerts.channels import Channel, channels_of

# Of a connection's contacts in the CRM, those that are looked at: an account has one test contact.
_LOOKED_AT = 20
_a, _b, _c = account.c, binding.c, connection.c
_IN_CRM = sa.and_(
    _b.account_id == _a.id, _b.connection_id == _a.connection_id, _b.crm_id.is_not(None)
)
_one: sa.Select[tuple[str]] = sa.select(sa.literal_column("1"))
_has_test_contact = sa.exists(
    _one.where(_IN_CRM, _b.contact_token == param("test_token")).correlate(account)
)
_some = (
    sa.select(_b.contact_token).where(_IN_CRM).limit(_LOOKED_AT).correlate(account).subquery("some")
)
_has_contact = sa.exists(
    _one.select_from(_some).where(_some.c.contact_token != param("test_token"))
)
_PROGRESS = sa.case(
    (_c.adapter == "local", 0),
    (_has_contact, 3),
    (_has_test_contact, 2),
    (_c.test_error != "", 0),
    else_=1,
)
_FURTHEST = Statement(
    sa.select(_a.client_id, _a.name, _c.adapter, _PROGRESS.label("progress"))
    .join_from(account, connection, sa.and_(_c.account_id == _a.id, _c.id == _a.connection_id))
    .where(_a.disabled_at.is_(None))
    .order_by(sa.desc("progress"), _a.id)
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class FirstSteps:
    """`client_id`: the account with the most progress, "" without accounts; `crm`: its CRM's title.

    `is_external`: the account has a CRM, which may have failed its test (`is_connected` is False).
    A step that is done implies the earlier ones of the account. `channels`: where alerts are sent.
    """

    client_id: str
    name: str
    crm: str
    is_external: bool
    is_connected: bool
    is_tested: bool
    has_bot: bool
    channels: tuple[Channel, ...]

    @property
    def is_complete(self) -> bool:
        return self.has_bot and bool(self.channels)


def progress(hub: Hub, db: Connection, test_token: str) -> FirstSteps:
    """`test_token`: the contactToken of the console's test calls, which are no calls of a bot."""
    channels = channels_of(hub.settings).names
    rows = rows_of_several(db, _FURTHEST, {"test_token": test_token})
    if not rows:
        return FirstSteps("", "", "", False, False, False, False, channels)
    [row] = rows
    return FirstSteps(
        row.client_id,
        row.name,
        hub.registry.title(row.adapter),
        row.adapter != "local",
        row.progress >= 1,
        row.progress >= 2,
        row.progress >= 3,
        channels,
    )
