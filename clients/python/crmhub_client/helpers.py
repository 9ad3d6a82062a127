"""The webhook helpers, for a bot that is a program of your own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from crmhub_client.errors import helper_error
from crmhub_client.operations import (
    AsyncGroup,
    Driver,
    Group,
    Steps,
    SyncGroup,
    in_path,
    new_key,
    operation,
    parsed,
)
from crmhub_client.results import HelperAnswer
from crmhub_client.values import NoteText, Properties, properties_json

_CHATBOT = "/chatbot"
_FUNCTIONS = "/crm-api-interface"


class HelperOperations(Group):
    """The webhook helpers of an account. Soft errors raise as any other error."""

    def __init__(
        self, driver: Driver, generated_id: str | None, portal_id: str | None, secret: str | None
    ) -> None:
        super().__init__(driver)
        self._generated_id = generated_id
        self._portal_id = portal_id
        self._secret = secret

    @operation
    def create_lead(
        self,
        contact_token: str,
        name: str,
        email: str,
        phone: str = "",
        *,
        note: NoteText | None = None,
        team: str | None = None,
        idempotency_key: str | None = None,
    ) -> Steps[HelperAnswer]:
        """Create or update the contact of a conversation; needs `generated_id`.

        `contact_token`: the bot's name for the conversation. `note` is added to the contact, and
        `team` gives it an owner. The answer's `contact_id` is valid at once, also while its
        `status` is `queued`.
        """
        body: dict[str, Any] = {
            "contactToken": contact_token,
            "name": name,
            "email": email,
            "phone": phone,
        }
        body |= {} if note is None else {"note": note}
        body |= {} if team is None else {"team": team}
        path = f"{_CHATBOT}/createLead/{in_path(self._generated())}"
        return (yield from self._call(path, body, key=new_key(idempotency_key)))

    @operation
    def get_properties(self, contact_token: str, props: Iterable[str]) -> Steps[HelperAnswer]:
        """Return properties of the contact of a conversation, as `properties` of the answer."""
        body = {"contactToken": contact_token, "props": list(props)}
        return (yield from self._call(self._conversation("getProperties"), body))

    @operation
    def set_properties(
        self, contact_token: str, props: Properties, *, idempotency_key: str | None = None
    ) -> Steps[HelperAnswer]:
        """Change properties of the contact of a conversation; "" clears one."""
        body = {"contactToken": contact_token, "props": properties_json(props)}
        path, key = self._conversation("setProperties"), new_key(idempotency_key)
        return (yield from self._call(path, body, key=key))

    @operation
    def get_type(
        self, contact_number: str, interval: float = 48, last_chat_interval: float = 0
    ) -> Steps[HelperAnswer]:
        """Return the active workflow of the contact with this phone; needs `generated_id`.

        Both intervals are hours: how far to look back, and how long the contact must have been
        silent. The answer's `workflow_id` is "" without a workflow; `reason` says why.
        """
        body = {
            "contactnumber": contact_number,
            "interval": interval,
            "lastChatInterval": last_chat_interval,
        }
        path = f"{_CHATBOT}/getType/{in_path(self._generated())}"
        return (yield from self._call(path, body))

    @operation
    def get_random_int(
        self, min: int, max: int, *, contact_id: str = "", contact_token: str = ""
    ) -> Steps[HelperAnswer]:
        """Return an integer from `min` to `max` as `value`; with `portal_id`, by the rotation.

        `contact_id` or `contact_token`: for a rotation in which a contact keeps its number.
        """
        body: dict[str, Any] = {"min": min, "max": max}
        path = f"{_FUNCTIONS}/getRandomInt"
        if self._portal_id is not None:
            body |= {"contactId": contact_id, "contactToken": contact_token}
            path += f"/{in_path(self._portal_id)}"
        return (yield from self._call(path, body))

    @operation
    def create_deal(
        self, contact_id: str, properties: Properties, *, idempotency_key: str | None = None
    ) -> Steps[HelperAnswer]:
        """Create a deal for a contact, as create_lead answered it; needs `portal_id`."""
        return (yield from self._create("createDeal", contact_id, properties, idempotency_key))

    @operation
    def create_ticket(
        self, contact_id: str, properties: Properties, *, idempotency_key: str | None = None
    ) -> Steps[HelperAnswer]:
        """Create a ticket for a contact, as create_lead answered it; needs `portal_id`."""
        return (yield from self._create("createTicket", contact_id, properties, idempotency_key))

    @operation
    def create_task(
        self, contact_id: str, properties: Properties, *, idempotency_key: str | None = None
    ) -> Steps[HelperAnswer]:
        """Create a task for a contact, with a `subject`; needs `portal_id`."""
        return (yield from self._create("createTask", contact_id, properties, idempotency_key))

    @operation
    def add_note(
        self,
        contact_token: str,
        text: NoteText,
        *,
        author: str = "",
        at: str = "",
        idempotency_key: str | None = None,
    ) -> Steps[HelperAnswer]:
        """Add a note to the contact of a conversation; needs `generated_id`.

        `text`: a text, or messages with `from`, `text` and `at`. `at`: when it was said, now by
        default.
        """
        body = {"contactToken": contact_token, "text": text, "author": author, "at": at}
        path = f"{_CHATBOT}/addNote/{in_path(self._generated())}"
        return (yield from self._call(path, body, key=new_key(idempotency_key)))

    @operation
    def assign_owner(
        self,
        contact_id: str,
        *,
        team: str = "",
        keep: bool = True,
        deal_id: str = "",
        idempotency_key: str | None = None,
    ) -> Steps[HelperAnswer]:
        """Give a contact an owner from a team, the account's first by default; needs `portal_id`.

        With `keep`, a present owner in the team stays. `deal_id`: a deal that gets the owner, too.
        """
        body = {"contactId": contact_id, "team": team, "keep": keep, "dealId": deal_id}
        path = f"{_FUNCTIONS}/assignOwner/{in_path(self._portal('assignOwner'))}"
        return (yield from self._call(path, body, key=new_key(idempotency_key)))

    def _create(
        self, helper: str, contact_id: str, properties: Properties, key: str | None
    ) -> Steps[HelperAnswer]:
        body = {"contactId": contact_id, "properties": properties_json(properties)}
        path = f"{_FUNCTIONS}/{helper}/{in_path(self._portal(helper))}"
        return (yield from self._call(path, body, key=new_key(key)))

    def _portal(self, helper: str) -> str:
        if self._portal_id is None:
            raise ValueError(f"{helper} needs hub.helpers(portal_id=…)")
        return self._portal_id

    def _generated(self) -> str:
        if self._generated_id is None:
            raise ValueError("this helper needs hub.helpers(generated_id=…)")
        return self._generated_id

    def _conversation(self, helper: str) -> str:
        """Return the path of a helper that finds the account by its path, secret or API key."""
        path = f"{_CHATBOT}/{helper}"
        return path if self._generated_id is None else f"{path}/{in_path(self._generated_id)}"

    def _call(self, path: str, body: Any, key: str | None = None) -> Steps[HelperAnswer]:
        headers = {} if self._secret is None else {"X-Webhook-Secret": self._secret}
        has_key = self._generated_id is None and path.startswith(_CHATBOT)
        # The account may have chosen another form for its builder.
        params = {"format": "flat"}
        response = yield from self._send(
            "POST", path, body, params=params, headers=headers, key=key, has_key=has_key
        )
        if parsed(response, lambda raw: raw["status"]) == "error":
            raise helper_error(response.json(), response)
        return parsed(response, HelperAnswer.parse)


class Helpers(HelperOperations, SyncGroup):
    """The webhook helpers, for Hub."""


class AsyncHelpers(HelperOperations, AsyncGroup):
    """The webhook helpers, for AsyncHub."""
