"""The honest adapter of the small CRM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any

from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    Choice,
    Conflict,
    Contact,
    Context,
    Described,
    Kind,
    Linked,
    NotFound,
    Pipeline,
    Problem,
    Rejected,
    Saved,
    Setting,
    Unavailable,
    Uncertain,
    Written,
)
from crmhub.adapter.http import Answer, Http
from crmhub.adapter.oauth import KEPT, Grant
from crmhub.adapter.phones import notations, same
from tests.adapter.small_crm import NAMES, TEXTS, TIME_FORM, TIMES, ZONE, to_utc


class SmallAdapter(Adapter):
    """Talks to the small CRM."""

    title = "Small CRM"
    settings = (
        Setting("base_url", "Address", "url", default="https://small.example.test/v1"),
        Setting("refresh_token", "Refresh token", secret=True, required=True),
        Setting(KEPT, "Access token", secret=True, kept=True),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.grant = Grant(context, self.title, self._exchange)
        budget = context.budget("general", calls=100, seconds=10)
        self.http = Http(
            context,
            context.settings["base_url"],
            crm=self.title,
            authorize=lambda: {"Authorization": f"Bearer {self.grant.token()}"},
            renew=self.grant.renew,
            failure=self._failure,
            budgets={"general": budget},
            secrets=self.grant.secrets,
        )

    def call(self, method: str, *path: str, **options: Any) -> Answer:
        """Send one request."""
        return self.http.send(method, *path, **options)

    def _exchange(self, stored: Mapping[str, str]) -> Answer:
        form = {"grant_type": "refresh_token", "refresh_token": stored["refresh_token"]}
        return self.http.send("POST", "token", form=form, reads=True, anonymous=True)

    def _failure(self, answer: Answer) -> AdapterError | None:
        body = answer.body if isinstance(answer.body, dict) else {}
        match answer.status, body:
            case 422, {"errors": list(errors)}:
                return Rejected([Problem(one["field"], one["reason"]) for one in errors])
            case 409, {"id": int(id)}:
                name = body.get("field", "email")
                return Conflict(f"This {name} is taken.", existing_id=str(id), name=name)
        return None

    # Contacts.

    def find_contact(
        self, *, email: str = "", phone: str = "", names: Sequence[str] = ()
    ) -> Contact | None:
        if email:
            try:
                return self.contact(self.call("GET", "by-email", email).object(), names)
            except NotFound:
                return None
        try:
            hits = self.search(phones="|".join(notations(phone)))
        except NotFound as exc:
            raise BadConfig(f"Small CRM has no search at this address: {exc.message}") from None
        found = [self.contact(one, ("phone", *names)) for one in hits]
        found = [one for one in found if same(phone, one.properties["phone"])]
        oldest = min(found, key=lambda one: int(one.id), default=None)
        return None if oldest is None else self.trimmed(oldest, names)

    def search(self, **query: str) -> list[Mapping[str, Any]]:
        hits: list[Mapping[str, Any]] = []
        for page in count():
            params = {**query, "limit": "200", "page": str(page)}
            answer = self.call("GET", "contacts", params=params)
            hits += answer.items()
            if answer.object().get("more") is not True:
                break
        return hits

    def get_contact(self, contact_id: str, names: Sequence[str]) -> Contact:
        return self.contact(self.call("GET", "contacts", contact_id).object(), names)

    def create_contact(self, properties: Mapping[str, str], *, mark: str = "") -> Saved:
        body = {"properties": self.sent(properties), "mark": mark}
        return Saved(self.call("POST", "contacts", body=body).id(), "created")

    def update_contact(self, contact_id: str, properties: Mapping[str, str]) -> Saved:
        body = {"properties": self.sent(properties)}
        return Saved(self.call("PATCH", "contacts", contact_id, body=body).id(), "updated")

    def sent(self, properties: Mapping[str, str]) -> dict[str, str]:
        at = properties.get("met")
        return {**properties, "met": self.to_local(at)} if at else dict(properties)

    def to_local(self, text: str) -> str:
        try:
            return datetime.fromisoformat(text).astimezone(ZONE).strftime(TIME_FORM)
        except ValueError:
            raise Rejected([Problem("met", "no time")]) from None

    def to_utc(self, local: str) -> str:
        return to_utc(local)

    def contact(self, record: Mapping[str, Any], names: Sequence[str]) -> Contact:
        """Return a record of the CRM as a contact."""
        id, properties = record.get("id"), record.get("properties")
        if not isinstance(id, int) or not isinstance(properties, dict):
            raise Unavailable("Small CRM answered with something that is no contact.")
        times = {name: self.to_utc(properties[name]) for name in TIMES if properties.get(name)}
        return self.trimmed(Contact(str(id), {**properties, **times}), names)

    def trimmed(self, contact: Contact, names: Sequence[str]) -> Contact:
        """Return a contact with the named properties alone."""
        held = contact.properties
        return Contact(contact.id, {name: held[name] or "" for name in names if name in held})

    # Deals and tickets.

    def create_for_contact(
        self, kind: Linked, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        body = {"properties": dict(properties), "mark": mark}
        if kind == "tickets":
            answer = self.call("POST", "contacts", contact_id, "tickets", body=body)
            return Saved(answer.id(), "created")
        self.get_contact(contact_id, ())
        deal_id = self.call("POST", "deals", body=body).id()
        self.link(deal_id, contact_id)
        return Saved(deal_id, "created")

    def link(self, deal_id: str, contact_id: str) -> None:
        """Link a deal to a contact, or leave no deal."""
        try:
            self.call("PUT", "deals", deal_id, "contact", contact_id).object()["linked"]
        except (AdapterError, KeyError) as exc:
            try:
                self.call("DELETE", "deals", deal_id).object()["deleted"]
            except (AdapterError, KeyError):
                raise Uncertain("A deal may have been left without its contact.") from None
            if isinstance(exc, Uncertain | KeyError):
                raise Unavailable("Small CRM could not link the deal; it is gone.") from None
            raise

    def find_marked(
        self,
        kind: Written,
        contact_id: str,
        mark: str,
        *,
        sent: Mapping[str, str],
        since_ms: int,
    ) -> Saved | None:
        answer = self.call("GET", "marked", kind, mark)
        found = answer.items()
        if not found:
            return None
        saved = Saved(answer.id(found[0]), "created")
        if kind == "deals" and not found[0].get("contact"):
            self.link(saved.id, contact_id)
        return saved

    # What it tells.

    def check(self) -> None:
        answer = self.call("GET", "me")
        if not answer.object().get("name"):
            raise answer.broken("it says nothing of the account")

    def describe(self, kind: Kind) -> list[Described]:
        answer = self.call("GET", "statuses")
        options = answer.object().get("results")
        if not isinstance(options, list) or not all(isinstance(one, str) for one in options):
            raise answer.broken("it lists nothing")
        choices = tuple(Choice(one, one) for one in options)
        described = [Described(name, name, "string") for name in sorted(NAMES[kind])]
        if kind != "contacts":
            return described
        described = [one for one in described if one.name in TEXTS]
        return [
            *described,
            Described("status", "Status", "enumeration", choices),
            Described("met", "Met", "datetime"),
            Described("created", "Created", "datetime", read_only=True),
        ]

    def pipelines(self, kind: Linked) -> list[Pipeline]:
        answer = self.call("GET", "pipelines")
        found = answer.mapping(answer.object().get("results"))
        return [
            Pipeline(id, id, tuple(Choice(stage, stage) for stage in stages))
            for id, stages in found.items()
        ]
