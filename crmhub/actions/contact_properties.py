"""getProperties and setProperties: what the CRM knows of the contact of a conversation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crmhub.accounts.accounts import Account
from crmhub.actions import bindings, dispatch
from crmhub.actions.connecting import connect, told
from crmhub.actions.dispatch import Done
from crmhub.actions.hub import Hub
from crmhub.actions.inputs import Sent, filled, split_name, usable
from crmhub.actions.partial import store_what_is_good
from crmhub.adapter import Adapter, Contact, contract
from crmhub.errors import BadRequest, NotFound, Semantic

MOST = 50
_PARTS = ("firstname", "lastname")


@dataclass(frozen=True, slots=True)
class Properties:
    """The asked names with their values, `""` where there is none, and the unknown names."""

    values: Mapping[str, str]
    missing: tuple[str, ...]
    url: str | None = None


def get_properties(
    hub: Hub, account: Account, *, contact_token: str, names: Sequence[str]
) -> Properties:
    """Return what the CRM has under these names for the contact of the conversation.

    `name` is first and last name together. Raises NotFound when the conversation has no
    contact, Semantic for blank names, BadRequest for too many, Unavailable.
    """
    token = filled(contact_token, "contactToken")
    asked = list(dict.fromkeys(name.strip() for name in names))
    _count(asked)
    if "" in asked:
        raise Semantic("props: a name in it is blank; send property names only")
    contact_id = _contact_of(hub, account, token)
    with told(account):
        adapter = connect(hub, account)
        wanted = [name for name in asked if name != "name"]
        wanted += [part for part in _PARTS if "name" in asked and part not in wanted]
        try:
            contact = adapter.get_contact(contact_id, wanted)
        except contract.NotFound as exc:
            raise _gone(exc) from exc
    bindings.chatted(hub.database, account, contact_id)
    known = {**contact.properties, "name": _whole_name(contact)}
    return Properties(
        {name: known.get(name, "") for name in asked},
        tuple(name for name in asked if name not in known),
        contact.url if adapter.record_pages else None,
    )


def set_properties(hub: Hub, account: Account, *, contact_token: str, properties: Sent) -> Done:
    """Change these properties of the contact of the conversation; `""` clears one.

    `name` sets first and last name. Raises NotFound when the conversation has no contact,
    Semantic when nothing is left that could be stored, BadRequest for too many, Unavailable.
    """
    token = filled(contact_token, "contactToken")
    _count(list(properties))
    return dispatch.run(hub, account, SetProperties(token, properties))


@dataclass(frozen=True, slots=True)
class SetProperties:
    """A call of setProperties."""

    contact_token: str
    properties: Sent

    def perform(self, hub: Hub, account: Account, adapter: Adapter) -> Done:
        """Update the contact of the conversation."""
        contact_id = _contact_of(hub, account, self.contact_token)
        properties, refused = usable(self.properties)
        if "name" in properties:
            properties = split_name(properties.pop("name")) | properties
        try:
            stored = store_what_is_good(
                lambda rest: adapter.update_contact(contact_id, rest),
                properties,
                refused,
                strict=account.switches.strict,
            )
        except contract.NotFound as exc:
            raise _gone(exc) from exc
        bindings.chatted(hub.database, account, contact_id)
        return Done(
            stored.saved.outcome,
            contact_id=contact_id,
            url=stored.saved.url if adapter.record_pages else None,
            refused=stored.refused,
        )


def _contact_of(hub: Hub, account: Account, token: str) -> str:
    contact_id = bindings.of_token(hub.database, account, token)
    if not contact_id:
        raise NotFound(
            "contactToken: no contact is bound to this conversation; call createLead with this"
            " contactToken first"
        )
    return contact_id


def _gone(exc: contract.NotFound) -> NotFound:
    return NotFound(f"contactToken: {exc.message} any more; call createLead again")


def _whole_name(contact: Contact) -> str:
    return " ".join(filter(None, (contact.properties.get(part, "") for part in _PARTS)))


def _count(names: Sequence[str]) -> None:
    if not names:
        raise Semantic("props: it is empty; name at least one property")
    if len(names) > MOST:
        raise BadRequest(f"props: {len(names)} names; send at most {MOST} in one call")
