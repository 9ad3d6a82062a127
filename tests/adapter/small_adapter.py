"""The honest adapter of the small CRM."""

from __future__ import annotations

import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any

from crmhub.adapter import (
    Adapter,
    AdapterError,
    BadConfig,
    ChangedPage,
    Choice,
    Conflict,
    Contact,
    Context,
    Denied,
    Described,
    Event,
    Kind,
    Linked,
    NotFound,
    Pipeline,
    Problem,
    Record,
    Rejected,
    Saved,
    Setting,
    Unavailable,
    Uncertain,
    Unsupported,
    WebhookRequest,
    Written,
)
from crmhub.adapter.http import Answer, Http, Limit
from crmhub.adapter.oauth import KEPT, Grant
from crmhub.adapter.phones import notations, same
from crmhub.adapter.types import to_html
from tests.adapter.small_crm import (
    NAMES,
    TASKS,
    TEXTS,
    TIME_FORM,
    TIMES,
    TITLES,
    ZONE,
    signed,
    to_utc,
)


class SmallAdapter(Adapter):
    """Talks to the small CRM."""

    title = "Small CRM"
    settings = (
        Setting("base_url", "Address", "url", default="https://small.example.test/v1"),
        Setting("refresh_token", "Refresh token", secret=True, required=True),
        Setting("hook_key", "Key of the webhooks", secret=True),
        Setting(KEPT, "Access token", secret=True, kept=True),
    )

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.grant = Grant(context, self.title, self._exchange)
        self.http = Http(
            context,
            context.settings["base_url"],
            crm=self.title,
            authorize=lambda: {"Authorization": f"Bearer {self.grant.token()}"},
            renew=self.grant.renew,
            failure=self._failure,
            limits=[Limit(100, 10.0)],
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
            case 409, {"linked": int(id), "message": str(message)}:
                why = f"{message}; remove that association first."
                return Conflict(why, existing_id=str(id))
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
        times = {
            name: self.to_local(name, properties[name])
            for name in ("met", "due")
            if properties.get(name)
        }
        return {**properties, **times}

    def to_local(self, name: str, text: str) -> str:
        try:
            return datetime.fromisoformat(text).astimezone(ZONE).strftime(TIME_FORM)
        except ValueError:
            raise Rejected([Problem(name, "no time")]) from None

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
        self.link_new(deal_id, contact_id)
        return Saved(deal_id, "created")

    def link_new(self, deal_id: str, contact_id: str) -> None:
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
        kind: Kind,
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
        if kind == "deals" and contact_id and not found[0].get("contact"):
            self.link_new(saved.id, contact_id)
        return saved

    # What it tells.

    def check(self) -> None:
        answer = self.call("GET", "me")
        if not answer.object().get("name"):
            raise answer.broken("it says nothing of the account")

    def describe(self, kind: Kind) -> list[Described]:
        if kind not in NAMES:
            raise Unsupported(f"Small CRM has no {kind}.")
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

    # A copy, notes and tasks.

    def changed_since(self, kind: Kind, since: str, names: Sequence[str]) -> ChangedPage:
        if kind not in NAMES:
            raise Unsupported(f"Small CRM has no {kind}.")
        params = {"since": since or "0", "limit": "200"}
        answer = self.call("GET", "changed", kind, params=params)
        entries, body = answer.items(), answer.object()
        if not isinstance(body.get("next"), int):
            raise answer.broken("it does not say where to go on")
        gone = {answer.id(one): str(one["gone"]) for one in entries if one.get("gone")}
        return ChangedPage(
            tuple(self.record(answer, one, names) for one in entries if not one.get("gone")),
            str(body["next"]),
            body.get("more") is True,
            tuple(id for id, into in gone.items() if into == "gone"),
            {id: into for id, into in gone.items() if into != "gone"},
        )

    def record(self, answer: Answer, entry: Mapping[str, Any], names: Sequence[str]) -> Record:
        contact, changed = self.contact(entry, names), entry.get("changed")
        if not isinstance(changed, str):
            raise answer.broken("it does not say when a record changed")
        at = datetime.fromisoformat(self.to_utc(changed)).timestamp()
        linked = (str(entry["contact"]),) if entry.get("contact") else ()
        links: dict[Kind, tuple[str, ...]] = {"contacts": linked} if "contact" in entry else {}
        return Record(contact.id, contact.properties, int(at * 1000), links=links)

    def get_records(self, kind: Kind, ids: Sequence[str], names: Sequence[str]) -> list[Record]:
        if kind not in NAMES:
            raise Unsupported(f"Small CRM has no {kind}.")
        found = []
        sound = [id for id in ids if id.isdecimal() and len(id) < 17]
        for start in range(0, len(sound), 100):
            params = {"ids": ",".join(sound[start : start + 100])}
            answer = self.call("GET", "records", kind, params=params)
            found += [self.record(answer, entry, names) for entry in answer.items()]
        return found

    def write(
        self, kind: Kind, record_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        if kind not in NAMES:
            raise Unsupported(f"Small CRM has no {kind}.")
        body = {"properties": self.sent(properties), "mark": mark}
        if record_id:
            return Saved(self.call("PATCH", kind, record_id, body=body).id(), "updated")
        return Saved(self.call("POST", kind, body=body).id(), "created")

    def archive(self, kind: Kind, record_id: str) -> None:
        answer = self.call("DELETE", kind, record_id)
        if answer.object().get("deleted") is not True:
            raise answer.broken("it does not say that the record is deleted")

    def link(
        self, kind: Kind, record_id: str, to: Kind, to_id: str, *, remove: bool = False
    ) -> None:
        if kind == "contacts":
            kind, record_id, to, to_id = to, to_id, kind, record_id
        if kind not in TITLES or to != "contacts":
            raise Unsupported(f"Small CRM has no associations between {kind} and {to}.")
        method = "DELETE" if remove else "PUT"
        answer = self.call(method, kind, record_id, "contact", to_id)
        if answer.object().get("linked") is not (not remove):
            raise answer.broken("it does not say what became of the association")

    def merge(self, kind: Kind, kept_id: str, other_id: str) -> Saved:
        if kind != "contacts":
            raise Unsupported(f"Small CRM merges no {kind}.")
        self.get_contact(other_id, ())
        body = {"other": int(other_id)}
        return Saved(self.call("POST", "contacts", kept_id, "merge", body=body).id(), "updated")

    def events(self, request: WebhookRequest) -> list[Event]:
        key = self.context.credentials["hook_key"]
        if not key:
            raise Unsupported("Enter the key of the webhooks.")
        if not hmac.compare_digest(
            request.headers.get("x-signature", ""), signed(request.body, key)
        ):
            raise Denied("The signature of the webhook is wrong.")
        kind, id = json.loads(request.body)["changed"]
        return [Event(kind, str(id))]

    def add_note(
        self, kind: Written, record_id: str, text: str, *, at_ms: int, mark: str = ""
    ) -> Saved:
        body = {"values": {"text": to_html(text), "at": at_ms}, "mark": mark}
        return Saved(self.call("POST", kind, record_id, "notes", body=body).id(), "created")

    def create_task(
        self, contact_id: str, properties: Mapping[str, str], *, mark: str = ""
    ) -> Saved:
        theirs = {ours: name for name, ours in TASKS.items()}
        values = {theirs.get(name, name): text for name, text in self.sent(properties).items()}
        body = {"values": values, "mark": mark}
        try:
            return Saved(
                self.call("POST", "contacts", contact_id, "tasks", body=body).id(), "created"
            )
        except Rejected as exc:
            exc.rename(lambda name: TASKS.get(name, name))
            raise
