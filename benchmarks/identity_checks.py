"""Compare each scene with the CRM, the helpers and the lists after a run."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.bots import Told
from benchmarks.identity_oracle import Call, Contact, Expected, Oracle, orders
from benchmarks.identity_scenes import ACCOUNTS, Scene

Properties = Mapping[str, str]
Pairs = Collection[frozenset[str]]
Answer = Told | str
"""The answer to a call; for a contact that was entered by hand, the contact's id."""

BROKEN = ("merged", "doubled", "overwritten", "shown", "lost", "wrong", "silent", "answers")
"""The kinds of faults.

`merged`: people whose contact also belongs to another person. `doubled`: more contacts than a
person should have. `overwritten`: contacts with a value of another person. `shown`: conversations
that show such a value. `lost`: contacts that are missing or lack a value. `wrong`: contacts with
another value than the one sent last. `silent`: clashes that neither an answer nor the list reports.
`answers`: calls that were refused but should be accepted, or the other way round.
"""
COUNTED = ("clashes", "in answer", "listed")
"""The names of three counts: clashes, clashes reported in answers, and listed clashes."""


@dataclass
class Played:
    """A scene that was sent: the answers to its calls, and the later answers of getProperties."""

    scene: Scene
    answers: list[Answer] = field(default_factory=list)
    """The answers in the order of `scene.calls`."""
    read: dict[str, Told] = field(default_factory=dict)
    """The answers of getProperties by contactToken."""


@dataclass
class Findings:
    """The counts of a scene, and the descriptions of its faults."""

    counts: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)

    @property
    def faults(self) -> int:
        """The number of faults."""
        return sum(self.counts[name] for name in BROKEN)

    def add(self, fault: str, remark: str, count: int = 1) -> None:
        """Count a fault and store its description."""
        self.counts[fault] += count
        self.remarks.append(f"{fault}: {remark}")


class Crowd:
    """The contacts of the CRM by id, and the people to whom their values belong."""

    def __init__(self, played: Iterable[Played], contacts: Mapping[str, Properties]) -> None:
        self.contacts = contacts
        self._people: dict[str, set[int]] = defaultdict(set)
        self._ids: dict[int, set[str]] = defaultdict(set)
        for one in played:
            for person in one.scene.people:
                for value in person.values:
                    self._people[comparable(value)].add(person.number)
        for id, properties in contacts.items():
            for value in properties.values():
                for number in self.people_with(value):
                    self._ids[number].add(id)

    def people_with(self, value: str) -> set[int]:
        """Return the people to whom a value belongs; first names and junk belong to nobody."""
        return self._people.get(comparable(value), set())

    def ids_of(self, people: Iterable[int]) -> set[str]:
        """Return the ids of the contacts that contain a value of one of these people."""
        return set().union(*(self._ids.get(number, set()) for number in people))

    def ids_with_email(self, email: str) -> list[str]:
        """Return the ids of the contacts with this primary email."""
        ids = self.ids_of(self.people_with(email))
        return sorted(id for id in ids if same(self.contacts[id].get("email"), email))


def comparable(value: str) -> str:
    """Return an email in lower case, a phone without blanks, and any other text unchanged."""
    value = value.strip()
    if "@" in value:
        return value.lower()
    return "".join(value.split()) if value.startswith("+") else value


def same(value: str | None, wanted: str) -> bool:
    """Return whether a stored value (None for none) equals the wanted value."""
    return comparable(value or "") == comparable(wanted)


def compare(played: Played, crowd: Crowd, pairs: Pairs) -> Findings:
    """Return the faults of a scene.

    Calls that were sent at the same moment may have been carried out in any order. The order with
    the fewest faults counts.
    """
    answers = {id(call): a for call, a in zip(played.scene.calls, played.answers, strict=True)}
    findings = (
        _compare_with([(call, answers[id(call)]) for call in calls], played, crowd, pairs)
        for calls in orders(played.scene.steps)
    )
    return min(findings, key=lambda one: one.faults)


def _compare_with(
    answered: Sequence[tuple[Call, Answer]], played: Played, crowd: Crowd, pairs: Pairs
) -> Findings:
    """Return the faults of a scene if its calls were carried out in this order."""
    switches = ACCOUNTS[played.scene.kind.account]
    oracle = Oracle(
        email_required="lead_requires" not in switches,
        phone_identifies="phone_identifies" in switches,
    )
    expected = [(call, answer, oracle.expect(call)) for call, answer in answered]
    ids = _ids_by_contact(oracle.contacts, expected, crowd)
    findings = Findings()
    for call, answer, wanted in expected:
        if isinstance(answer, Told):
            _compare_answer(call, answer, wanted, findings)
            _compare_clash(call, answer, wanted, ids, pairs, findings)
    _compare_people(ids, crowd, findings)
    _compare_rest(played, ids, crowd, findings)
    for token, answer in played.read.items():
        _compare_conversation(token, answer, oracle.conversations.get(token), crowd, findings)
    return findings


Ids = Sequence[tuple[Contact, Sequence[str]]]
"""The expected contacts, each with the CRM's ids that the answers gave for it."""


def _ids_by_contact(
    contacts: Sequence[Contact],
    expected: Sequence[tuple[Call, Answer, Expected]],
    crowd: Crowd,
) -> Ids:
    found = []
    for contact in contacts:
        answers = [answer for _, answer, wanted in expected if wanted.contact is contact]
        ids = dict.fromkeys(one if isinstance(one, str) else _contact_id(one) for one in answers)
        # An answer that was queued has an id of the hub's own.
        known = [id for id in ids if id in crowd.contacts]
        found.append((contact, known or crowd.ids_with_email(contact.email)))
    return found


def _contact_id(answer: Told) -> str:
    return str(answer.body.get("contactId", ""))


# --- The answers ------------------------------------------------------------------------------


def _compare_answer(call: Call, answer: Told, wanted: Expected, findings: Findings) -> None:
    if wanted.errors and answer.status != 422:
        findings.add("answers", f"{call} is answered {_shown(answer)} instead of 422")
    if not wanted.errors and not answer.accepted:
        findings.add("answers", f"{call} is answered {_shown(answer)} instead of 2xx")


def _compare_clash(
    call: Call, answer: Told, wanted: Expected, ids: Ids, pairs: Pairs, findings: Findings
) -> None:
    if not wanted.is_clash:
        return
    if answer.status == 202 and not wanted.shares_phone_with:
        # What is refused later stands in the action; a queued answer cannot tell it.
        return
    mine = {id for contact, known in ids if contact is wanted.contact for id in known}
    others = {id for contact, known in ids if contact is not wanted.contact for id in known}
    in_answer = _is_told(answer, wanted)
    listed = any(pair & mine and pair & others for pair in pairs)
    findings.counts.update({"clashes": 1, "in answer": in_answer, "listed": listed})
    if not in_answer and not (listed and wanted.shares_phone_with):
        findings.add("silent", f"{call} is answered {_shown(answer)}; it should tell: {wanted}")


def _is_told(answer: Told, wanted: Expected) -> bool:
    message = str(answer.body.get("message", "")).lower()
    if wanted.errors:
        named = any(key.lower() in message for key in wanted.errors)
        return answer.status == 422 and named and wanted.value.lower() in message
    refused = set(str(answer.body.get("refused", "")).split(","))
    if wanted.refused:
        return wanted.refused <= refused
    return "phone" in message or "phone" in refused


# --- The contacts -----------------------------------------------------------------------------


def _compare_people(ids: Ids, crowd: Crowd, findings: Findings) -> None:
    """Check that each person has one contact, that it is theirs alone, and that it is right."""
    uses = Counter(id for _, known in ids for id in known)
    for id, count in uses.items():
        if count > 1:
            remark = f"{count} people are contact {id}, {crowd.contacts[id]}"
            findings.add("merged", remark, count - 1)
    for contact, known in ids:
        if not known:
            findings.add("lost", f"there is no contact {contact.properties}")
            continue
        for id in known[1:]:
            findings.add("doubled", f"{known[0]} and {id} are {contact.properties}")
        right = [id for id in known if same(crowd.contacts[id].get("email"), contact.email)]
        held = crowd.contacts[(right or known)[0]]
        _compare_values("overwritten", held, contact, crowd, findings)


def _compare_rest(played: Played, ids: Ids, crowd: Crowd, findings: Findings) -> None:
    """Find contacts with values of these people that no answer has named."""
    answered = {id for _, known in ids for id in known}
    people = [person.number for person in played.scene.people]
    for id in sorted(crowd.ids_of(people) - answered):
        findings.add("doubled", f"contact {id} should not exist: {crowd.contacts[id]}")


def _compare_values(
    somebody_elses: str, held: Properties, contact: Contact, crowd: Crowd, findings: Findings
) -> None:
    """Compare all values; count the fault `somebody_elses` if a value belongs to another person."""
    expected = contact.properties
    values = [held.get(name, "") for name in expected if not same(held.get(name), expected[name])]
    people = set().union(*(crowd.people_with(value) for value in values))
    if values:
        fault = "wrong" if any(values) else "lost"
        if people - contact.people:
            fault = somebody_elses
        stored = {name: held.get(name, "") for name in expected}
        findings.add(fault, f"{stored} should be {expected}")


def _compare_conversation(
    token: str, answer: Told, contact: Contact | None, crowd: Crowd, findings: Findings
) -> None:
    """Check the answer of getProperties, which must refuse a token without a contact."""
    if contact is None:
        if answer.status not in (404, 422):
            findings.add("shown", f"getProperties of {token!r} is answered {_shown(answer)}")
    elif not answer.accepted:
        findings.add("answers", f"getProperties of {token!r} is answered {_shown(answer)}")
    else:
        _compare_values("shown", answer.body["properties"], contact, crowd, findings)


def _shown(answer: Told) -> str:
    filled = {name: value for name, value in answer.body.items() if value}
    return f"{answer.status} {filled}"
