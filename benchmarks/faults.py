"""Check that no lead is lost or written twice while everything fails and an operator decides.

    python -m benchmarks.faults [--sqlite] [--local | --late 25] [--leads 1000] [--deals 200]
        [--kills 25] [--failing 40]

It starts a HubSpot-like CRM, `crmhub serve` and its worker as processes of their own, sends leads,
deals, notes, tasks and assignOwner as bots do, without trying again, while the CRM is slow, answers
429, 500, 502, breaks connections before and after writing, and sends pages and broken JSON, and
while server processes and worker are killed with SIGKILL. With `--late`, the CRM carries out a part
of the writes up to so many seconds after their callers have given up. With `--local`, the account's
records are the hub's own, and only processes are killed. For a while the CRM is unavailable: then
`--failing` people send calls that can never succeed among good ones (a stage, an email, an option
that the CRM does not take). An operator corrects, retries and discards what failed, in random
order, while the same people send newer values. When the queue is empty it counts what the CRM
holds. It ends with 1 when a call that was answered 2xx is missing, anything is there twice, a
deal, note or task is not its contact's, a property holds an older value than the one accepted last,
or a contact has another owner than was answered.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import requests

from benchmarks.bots import Bots, Told, judged, lost_and_twice, p, states, until_empty
from benchmarks.own_records import OwnRecords
from benchmarks.places import Crm, Place, Service, fake_crm, parser, place
from benchmarks.rotation import make_team

_FAULTS: tuple[dict[str, Any], ...] = (
    {"kind": "latency", "seconds": 0.4, "probability": 0.2},
    {
        "kind": "status",
        "status": 429,
        "probability": 0.02,
        "retry_after": "seconds",
        "retry_seconds": 1,
    },
    {"kind": "status", "status": 500, "probability": 0.02},
    {"kind": "status", "status": 500, "probability": 0.02, "written": True},
    {"kind": "status", "status": 502, "probability": 0.02},
    {"kind": "reset", "probability": 0.02},
    {"kind": "reset", "probability": 0.02, "written": True},
    {"kind": "close", "probability": 0.01, "written": True},
    {"kind": "cut", "probability": 0.01},
    {"kind": "html", "probability": 0.01, "written": True},
    {"kind": "broken_json", "probability": 0.01},
)
_UNAVAILABLE = {"kind": "status", "status": 503}
# HubSpot's adapter waits 30 s until a write whose answer was lost can no longer take effect.
_LATEST_S, _LATE_SHARES = 25.0, {0.2: 0.02, 0.5: 0.03, 1.0: 0.05}


@dataclass
class Sent:
    """The accepted calls, and the calls without an answer that may have been accepted."""

    values: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """By email and property: the value accepted last, and later values without an answer."""
    leads: set[str] = field(default_factory=set)
    """The emails that were accepted."""
    contacts: dict[str, str] = field(default_factory=dict)
    """By email, the contactId that was answered."""
    owners: dict[str, str] = field(default_factory=dict)
    """By email, the owner that was answered to the last assignOwner; "" if it was left open."""
    deals: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)
    tasks: set[str] = field(default_factory=set)
    doubtful: set[str] = field(default_factory=set)
    """Emails and titles of calls without an answer: the CRM may have them or not."""
    discarded: set[str] = field(default_factory=set)
    """Values and deals of the calls that the operator discards."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note_lead(self, told: Told, email: str, **values: str) -> None:
        """Record the answer to a lead with this email and these properties."""
        with self.lock:
            if told.accepted:
                self.leads.add(email)
                self.contacts[email] = told.contact_id
            else:
                self.doubtful.add(email)
        self.note_values(told, email, **values)

    def note_values(self, told: Told, email: str, **values: str) -> None:
        """Record the answer to properties sent for the contact with this email."""
        if told.status and not told.accepted:
            return
        with self.lock:
            held = self.values.setdefault(email, {})
            for name, value in values.items():
                held[name] = [value] if told.accepted else [*held.get(name, [""]), value]

    def note_title(self, told: Told, title: str, accepted: set[str]) -> None:
        """Record the answer to a call that creates a record with this title."""
        with self.lock:
            (accepted if told.accepted else self.doubtful).add(title)

    def note_owner(self, told: Told, email: str) -> None:
        """Record the answer to an assignOwner."""
        with self.lock:
            if told.accepted:
                self.owners[email] = told.body["ownerId"]


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--sqlite", action="store_true")
    command.add_argument("--local", action="store_true", help="the hub's own records")
    command.add_argument("--late", type=float, default=0, help=f"seconds, up to {_LATEST_S:g}")
    command.add_argument("--leads", type=int, default=1_000)
    command.add_argument("--deals", type=int, default=200)
    command.add_argument("--failing", type=int, default=40, help="people with such calls")
    command.add_argument("--kills", type=int, default=25)
    command.add_argument("--bots", type=int, default=24)
    command.add_argument("--workers", type=int, default=2)
    command.add_argument("--threads", type=int, default=16)
    options = command.parse_args()
    if options.late > _LATEST_S or (options.local and options.late):
        command.error(f"--late: at most {_LATEST_S:g} s, and not with --local")
    if options.local:
        options.failing = 0
    faults = [
        *_FAULTS,
        *(
            {"kind": "latency", "method": "POST", "seconds": options.late * part, "probability": of}
            for part, of in _LATE_SHARES.items()
            if options.late
        ),
    ]
    with ExitStack() as stack:
        here = stack.enter_context(place(options.sqlite))
        remote = None if options.local else stack.enter_context(fake_crm())
        crm = remote or OwnRecords(here.url)
        # Strict: one value that the CRM refuses fails a call with all of its values.
        ids = here.account(remote.url if remote else "", strict=True)
        make_team(here)
        with here.server(workers=options.workers, threads=options.threads) as service:
            crm.faults(*faults)
            bots, operator = Bots(service.address, ids), Operator.of(here, service)
            sent = Sent()
            failing = [Failing(bots, sent, number) for number in range(options.failing)]
            with killing(service, options.kills):
                _storm(crm, bots, sent, failing, faults, options)
            crm.faults()
            # Nobody waits for the hours of a schedule here.
            took = until_empty(here.url, hurry=True)
            failed = operator.failed_actions()
            crm.faults(*faults)
            with killing(service, options.kills // 5):
                _decide(operator, failed, failing, options)
            crm.faults()
            until_empty(here.url, hurry=True)
            operator.decide_rest(here.url)
            # What was lost may still take effect.
            time.sleep(options.late)
        crm_name = "own records" if options.local else "HubSpot"
        print(
            f"{here.dialect}, {crm_name}: {options.leads} leads, a third of them twice,"
            f" {options.deals} deals, notes and tasks,"
            f" {options.failing} people with calls that fail,"
            f" {options.kills + options.kills // 5} processes killed"
        )
        fine = _judge(crm, states(here.url), bots, sent, operator, took)
    sys.exit(0 if fine else 1)


def _storm(
    crm: Crm | OwnRecords,
    bots: Bots,
    sent: Sent,
    failing: Sequence[Failing],
    faults: Sequence[Mapping[str, Any]],
    options: argparse.Namespace,
) -> None:
    """Send everything but the newest values."""
    # A third of the leads comes a second time, with another name.
    people = [(i, 0) for i in range(options.leads)]
    again = [(i, 1) for i in range(0, options.leads, 3)]
    with ThreadPoolExecutor(options.bots) as pool:
        list(pool.map(lambda one: _lead(bots, sent, *one), people))
        list(pool.map(lambda one: _lead(bots, sent, *one), again))
        list(pool.map(lambda i: _deal(bots, sent, i), range(options.deals)))
        list(pool.map(lambda i: _note(bots, sent, i), range(options.deals)))
        list(pool.map(lambda i: _task(bots, sent, i), range(options.deals)))
        list(pool.map(lambda i: _owner(bots, sent, i), range(options.deals)))
        # Unavailable, so that the hub accepts what it would refuse if it could ask the CRM.
        crm.faults(_UNAVAILABLE)
        list(pool.map(Failing.send, failing))
        crm.faults(*faults)
        list(pool.map(lambda one: one.send_newer("New"), failing))


def _decide(
    operator: Operator,
    failed: Sequence[Action],
    failing: Sequence[Failing],
    options: argparse.Namespace,
) -> None:
    """Let the operator decide while the same people send newer values once more."""
    deciding = threading.Thread(target=operator.decide_or_retry, args=(failed,))
    deciding.start()
    with ThreadPoolExecutor(options.bots) as pool:
        list(pool.map(lambda one: one.send_newer("Newest"), failing))
    deciding.join()


@contextmanager
def killing(service: Service, kills: int) -> Iterator[None]:
    """Kill this number of processes of the service while the block runs."""
    killer = threading.Thread(target=_kill, args=(service, kills), daemon=True)
    killer.start()
    yield
    killer.join()


def _kill(service: Service, kills: int) -> None:
    """Kill a process now and then, the worker as often as a server process."""
    while kills:
        time.sleep(random.uniform(0.8, 1.8))
        wanted = " worker " if kills % 2 else " serve "
        children = service.children()
        chosen = [pid for pid, command in children.items() if wanted in f"{command} "]
        if chosen:
            os.kill(random.choice(chosen), signal.SIGKILL)
            kills -= 1


def _lead(bots: Bots, sent: Sent, number: int, round: int) -> None:
    email, last = f"bot{number}@example.com", f"Lee{round}"
    told = bots.create_lead(f"chat-{number}", name=f"Ann {last}", email=email)
    sent.note_lead(told, email, lastname=last)


def _deal(bots: Bots, sent: Sent, number: int) -> None:
    email, name = f"bot{number}@example.com", f"Deal {number}"
    contact_id = sent.contacts.get(email)
    if contact_id is not None:
        told = bots.create_deal(contact_id, dealname=name, amount=str(number))
        sent.note_title(told, name, sent.deals)


def _note(bots: Bots, sent: Sent, number: int) -> None:
    if f"bot{number}@example.com" in sent.contacts:
        told = bots.add_note(f"chat-{number}", f"Note {number}")
        sent.note_title(told, f"<p>Note {number}</p>", sent.notes)


def _task(bots: Bots, sent: Sent, number: int) -> None:
    contact_id = sent.contacts.get(f"bot{number}@example.com")
    if contact_id is not None:
        told = bots.create_task(contact_id, subject=f"Task {number}", priority="high")
        sent.note_title(told, f"Task {number}", sent.tasks)


def _owner(bots: Bots, sent: Sent, number: int) -> None:
    email = f"bot{number}@example.com"
    contact_id = sent.contacts.get(email)
    if contact_id is not None:
        sent.note_owner(bots.assign_owner(contact_id), email)


# --- Calls that fail ----------------------------------------------------------------------------

_DISCARD = "to discard"


@dataclass(frozen=True, slots=True)
class Failing:
    """A person of whom some calls cannot succeed before the operator corrects them.

    A third of these persons begin with an email that the CRM refuses, so that the contact does not
    exist. Half of this third send the right email themselves later.
    """

    bots: Bots
    sent: Sent
    number: int

    @property
    def email(self) -> str:
        """The right email; the operator derives it from the refused one."""
        return f"failing{self.number}@example.com"

    @property
    def token(self) -> str:
        """The person's conversation."""
        return f"failing-{self.number}"

    @property
    def is_unknown(self) -> bool:
        """Whether the CRM refuses the person's first email."""
        return self.number % 3 == 1

    def send(self) -> None:
        """Send valid and failing calls; each accepted call must be carried out or discarded."""
        email = _refused_email(self.email) if self.is_unknown else self.email
        lead = self.bots.create_lead(self.token, name="Ann Old", email=email)
        self.sent.note_lead(lead, self.email, lastname="Old")
        if not lead.accepted:
            return
        if self.is_unknown:
            self._deal(lead.contact_id, f"Blocked {self.number}")
            return
        ending = f" {_DISCARD}" if self.number % 2 else ""
        failing = f"Failing {self.number}{ending}"
        self._set(jobtitle=failing, city="Older", lifecyclestage="no stage")
        self._deal(lead.contact_id, failing, dealstage="nowhere")
        self._deal(lead.contact_id, f"Good {self.number}")
        self._set(city="Old")

    def send_newer(self, value: str) -> None:
        """Send newer values, while older ones wait, fail or are retried."""
        self._set(city=value)
        if not (self.is_unknown and self.number % 2):
            lead = self.bots.create_lead(self.token, name=f"Ann {value}", email=self.email)
            self.sent.note_lead(lead, self.email, lastname=value)

    def _set(self, **values: str) -> None:
        told = self.bots.set_properties(self.token, **values)
        if _DISCARD in values.get("jobtitle", ""):
            with self.sent.lock:
                self.sent.discarded.add(values["jobtitle"])
            return
        corrections = {name: right for name, right in _CORRECTIONS.items() if name in values}
        self.sent.note_values(told, self.email, **(values | corrections))

    def _deal(self, contact_id: str, name: str, **values: str) -> None:
        told = self.bots.create_deal(contact_id, dealname=name, **values)
        if _DISCARD in name:
            with self.sent.lock:
                self.sent.discarded.add(name)
        else:
            self.sent.note_title(told, name, self.sent.deals)


def _refused_email(email: str) -> str:
    """Return an email that the hub accepts and HubSpot refuses."""
    return email.replace("@example.com", "@bücher.example.com")


def _right_email(email: str) -> str:
    return email.replace("@bücher.example.com", "@example.com")


# What the operator sends instead of what the CRM does not know.
_CORRECTIONS = {"dealstage": "appointmentscheduled", "lifecyclestage": "customer"}


# --- The operator -------------------------------------------------------------------------------

_OPERATORS, _ROUNDS, _PATIENCE_S = 3, 3, 60.0
Action = Mapping[str, Any]
"""An action as the admin API shows it."""


@dataclass
class Operator:
    """Decides on failed actions, with the commands of `crmhub actions`."""

    here: Place
    url: str
    token: str = field(repr=False)
    commands: Counter[str] = field(default_factory=Counter)
    """The number of runs of each command."""
    failures: list[str] = field(default_factory=list)
    """The output of the commands that failed."""

    @classmethod
    def of(cls, here: Place, service: Service) -> Operator:
        """Return the operator of this service."""
        token = json.loads(here.command("admin", "token", "create", "operator", "--json"))["token"]
        return cls(here, f"http://127.0.0.1:{service.address[1]}/admin/v1/actions", token)

    def failed_actions(self) -> list[Action]:
        """Return the failed actions with their requests, in random order."""
        listed = self._get("", state="dead", limit="100")["results"]
        random.shuffle(listed)
        return [self._get(f"/{one['actionId']}") for one in listed]

    def decide_or_retry(self, failed: Sequence[Action]) -> None:
        """Decide on these actions; retry a third uncorrected, so that they fail again."""

        def decide(action: Action) -> None:
            if random.randrange(3):
                self._decide(action)
            else:
                self._run("retry", action["actionId"])

        with ThreadPoolExecutor(_OPERATORS) as pool:
            list(pool.map(decide, failed))

    def decide_rest(self, url: str) -> None:
        """Decide on all other actions; discard those that still fail after some rounds."""
        for _ in range(_ROUNDS):
            failed = self.failed_actions()
            with ThreadPoolExecutor(_OPERATORS) as pool:
                list(pool.map(self._decide, failed))
            until_empty(url, hurry=True)
            if not failed:
                return

    def _get(self, path: str, **query: str) -> Any:
        headers = {"Authorization": f"Bearer {self.token}"}
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                answer = requests.get(f"{self.url}{path}", query, headers=headers, timeout=30)
            except requests.ConnectionError:
                # The killed processes may not be back yet.
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
                continue
            answer.raise_for_status()
            return answer.json()

    def _decide(self, action: Action) -> None:
        id, request = action["actionId"], action["request"]
        values = {**request, **request.get("properties", {})}
        if any(_DISCARD in str(value) for value in values.values()):
            self._run("discard", id, "--reason", "a test of the operator", "--yes")
            return
        corrected = {name: right for name, right in _CORRECTIONS.items() if name in values}
        if email := values.get("email"):
            corrected["email"] = _right_email(email)
        if any(values[name] != value for name, value in corrected.items()):
            self._run("edit", id, *(f"{name}={value}" for name, value in corrected.items()))
        else:
            self._run("retry", id)

    def _run(self, command: str, *words: str) -> None:
        self.commands[command] += 1
        try:
            self.here.command("actions", command, *words)
        except subprocess.CalledProcessError as exc:
            self.failures.append(f"crmhub actions {command}: {exc.stderr.strip()[-300:]}")


# --- What the CRM holds -------------------------------------------------------------------------

_SHOWN = 3
_OF_BOT = re.compile(r"^(?:Deal|Task|<p>Note) (\d+)")


def _judge(
    crm: Crm | OwnRecords,
    found: dict[str, int],
    bots: Bots,
    sent: Sent,
    operator: Operator,
    took: float,
) -> bool:
    contacts, deals = crm.records("contacts"), crm.records("deals")
    held = {one["properties"].get("email", ""): one["properties"] for one in contacts}
    values = [value for one in (*contacts, *deals) for value in one["properties"].values()]
    answered = [one.seconds for one in bots.told if one.status]
    print(f"answers {bots.statuses()} (0: the connection broke)")
    print(f"slowest answer {max(answered):.1f} s, p50 {p(50, answered):.2f} s; journal {found}")
    print(f"queue empty {took:.0f} s after the storm; commands {dict(operator.commands)}")
    older = [
        f"{email} has the {name} {held[email].get(name, '')!r} instead of {' or '.join(newest)!r}"
        for email, told in sent.values.items()
        if email in held
        for name, newest in told.items()
        if held[email].get(name, "") not in newest
    ]
    unowned = [
        email
        for email, owner in sent.owners.items()
        if email in held
        and (not (now := held[email].get("hubspot_owner_id", "")) or owner not in ("", now))
    ]
    for remark in (*older[:_SHOWN], *operator.failures[:_SHOWN]):
        print(f"  {remark}")
    return judged(
        {
            **lost_and_twice(crm, "contacts", "email", sent.leads, maybe=sent.doubtful),
            "properties without the newest value": len(older),
            "contacts with another owner than answered": len(unowned),
            **lost_and_twice(crm, "deals", "dealname", sent.deals, maybe=sent.doubtful),
            **lost_and_twice(crm, "notes", "hs_note_body", sent.notes, maybe=sent.doubtful),
            **lost_and_twice(crm, "tasks", "hs_task_subject", sent.tasks, maybe=sent.doubtful),
            "deals without contact": sum(not one["associations"]["contacts"] for one in deals),
            "deals, notes and tasks of others": len(_of_others(crm, contacts)),
            "discarded values in the CRM": len(sent.discarded.intersection(values)),
            "failed actions left": found.get("dead", 0),
            "blocked actions left": found.get("parked", 0),
            "commands that failed": len(operator.failures),
        }
    )


def _of_others(crm: Crm | OwnRecords, contacts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the deals, notes and tasks of bots that are not linked to their contact alone."""
    emails = {
        one["properties"]["hs_object_id"]: one["properties"].get("email", "") for one in contacts
    }
    names = {"deals": "dealname", "notes": "hs_note_body", "tasks": "hs_task_subject"}
    return [
        title
        for kind, name in names.items()
        for one in crm.records(kind)
        for title in [one["properties"][name]]
        if (number := _OF_BOT.search(title))
        and [emails.get(id) for id in one["associations"]["contacts"]]
        != [f"bot{number[1]}@example.com"]
    ]


if __name__ == "__main__":
    main()
