"""createLead: the contact a conversation is about, created or brought up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from crmhub.accounts.accounts import Account
from crmhub.actions import bindings, dispatch
from crmhub.actions.dispatch import Done
from crmhub.actions.hub import Hub
from crmhub.actions.inputs import filled, is_placeholder, split_name, unreplaced
from crmhub.actions.partial import store_what_is_good
from crmhub.adapter import Adapter, Lead, Problem, Rejected, Saved
from crmhub.errors import Semantic, listed
from crmhub.records import values


def create_lead(
    hub: Hub, account: Account, *, contact_token: str, name: str, email: str, phone: str
) -> Done:
    """Create or update the contact with this email, else of this conversation, else this phone.

    Blank values change nothing. Raises Semantic when what the account demands of a lead is
    blank or a placeholder, or when nothing is left that could be stored; NotFound and
    Unavailable as `dispatch.run`.
    """
    token = filled(contact_token, "contactToken")
    lead = CreateLead(token, name.strip(), email.strip(), phone.strip())
    _demand(account, lead)
    return dispatch.run(hub, account, lead)


def _demand(account: Account, lead: CreateLead) -> None:
    """Raise Semantic unless the lead has a name and an email, or is one by phone alone."""
    fields = {"name": lead.name, "email": lead.email}
    faults = [(where, unreplaced(text)) for where, text in fields.items() if is_placeholder(text)]
    by_phone = account.switches.lead_requires == "email_or_phone"
    if not (by_phone and lead.phone and not is_placeholder(lead.phone)):
        right = "send a value, or a phone" if by_phone else "send a value"
        faults += [(where, f"it is blank; {right}") for where, text in fields.items() if not text]
    if faults:
        raise Semantic(listed(faults))


@dataclass(frozen=True, slots=True)
class CreateLead:
    """A call of createLead: a token, and at least an email or a phone."""

    contact_token: str
    name: str
    email: str
    phone: str

    def perform(self, hub: Hub, account: Account, adapter: Adapter) -> Done:
        """Upsert the contact and bind the conversation to it."""
        of_conversation = bindings.of_token(hub.database, account, self.contact_token)
        strict = account.switches.strict

        def write(properties: Mapping[str, str]) -> Saved:
            email, phone = properties.get("email", ""), properties.get("phone", "")
            if not (email or phone or of_conversation):
                # Without either, nobody could tell whose name this is.
                raise Rejected([], "Neither email nor phone can be used.")
            return adapter.upsert_contact(
                Lead(
                    properties, email=email, phone=phone, contact_id=of_conversation, strict=strict
                )
            )

        properties, refused = self._properties(account)
        stored = store_what_is_good(write, properties, refused, strict=strict)
        saved = stored.saved
        taken = properties.keys() - {problem.name for problem in stored.refused}
        bindings.bind(
            hub.database,
            account,
            token=self.contact_token,
            crm_id=saved.id,
            email=properties["email"] if "email" in taken else "",
            phone=properties["phone"] if "phone" in taken else "",
        )
        return Done(
            saved.outcome,
            contact_id=saved.id,
            url=saved.url if adapter.record_pages else None,
            refused=stored.refused,
        )

    def _properties(self, account: Account) -> tuple[dict[str, str], list[Problem]]:
        """Return what is to be stored, in the form that lookups use, and what cannot be."""
        properties: dict[str, str] = {}
        refused: list[Problem] = []
        for name, text in (("email", self.email), ("phone", self.phone)):
            if not text:
                continue
            try:
                if is_placeholder(text):
                    raise values.InvalidValue(unreplaced(text))
                region = account.switches.region or None
                properties[name] = values.canonical(name, text, region=region)
            except values.InvalidValue as exc:
                refused.append(Problem(name, str(exc)))
        named = split_name(self.name)
        properties |= {name: text for name, text in named.items() if text}
        return properties, refused
