"""What an agent's tool is: its caller, its description, its arguments, and the check of a call."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

import mcp_types
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from crmhub.accounts.accounts import Account
from crmhub.adapter import is_record_id
from crmhub.audit import Author
from crmhub.bounds import MAX_ASKED_PROPERTIES
from crmhub.errors import BadRequest, Forbidden, NotFound, Semantic, listed, shortened
from crmhub.helpers import read_crm
from crmhub.hub import Hub
from crmhub.operators.crm import copy_crm
from crmhub.properties.kinds import CONTACTS, Kind
from crmhub.properties.values import from_json
from crmhub.records import copied
from crmhub.records.models import Stored
from crmhub.records.search.filters import iso
from crmhub.records.writing import missing

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Agent:
    """`author`: the API key or the command. `counted`: the rate limit counted the call already."""

    hub: Hub
    account: Account
    scopes: frozenset[str]
    author: Author
    counted: bool = False

    @property
    def is_remote(self) -> bool:
        return self.hub.registry.is_remote(self.account.connection.adapter)

    @property
    def crm(self) -> str:
        return self.hub.registry.title(self.account.connection.adapter)

    @property
    def is_copied(self) -> bool:
        """Whether the records are a copy of those in the CRM; tools then use the CRM's ids."""
        return self.account.switches.mirror

    def reach(self, kind: Kind, purpose: str = "read") -> Answer:
        """Return where the hub's records of this kind are from, as answers say it.

        Raises Semantic if they are in the CRM alone, and Unavailable while the copy is incomplete.
        """
        if self.is_copied:
            until = copy_crm.complete_until(self.hub, self.account, kind)
            return {"source": "copy", "syncedAt": iso(until)}
        if not self.is_remote:
            return {"source": "hub"}
        words = f"This account's {kind.name} are in {self.crm}"
        if not copy_crm.why_impossible(self.hub, self.account):
            words += f"; switch on its copy to {purpose} them. Only an operator can: tell the user."
        else:
            words += ", which this tool does not reach. Tell the user."
        raise Semantic(words)

    def find(self, kind: Kind, sent: str, where: str, by: str = "") -> Stored:
        """Return one of the hub's records by the id that tools show, or by a unique property.

        `where`: the argument, for the message. Raises as `reach`, BadRequest and NotFound.
        """
        self.reach(kind)
        records = self.hub.records
        if kind is CONTACTS and not by:
            sent = self._crm_id(sent, where)
        by = by or (copied.ID if self.is_copied else "")
        if by:
            found = records.stored_by(self.account, kind, by, [sent])
            words = f"There is no {kind.singular} with the {by} {shortened(sent)!r}."
        elif is_record_id(sent):
            found = records.stored(self.account, kind, [int(sent)])
            words = missing(kind, sent)
        else:
            raise BadRequest(
                f"{where}: {shortened(sent)!r} is not the id of a {kind.singular} in the hub; send"
                " a number such as 481516234211, as search_records and find_contacts answer it."
            )
        if not found:
            raise NotFound(f"{where}: {words} find_contacts and search_records find ids.")
        return found[0]

    def known_contact(self, contact_id: str, where: str) -> read_crm.Known:
        """Raises NotFound for a text that can be no contact's id."""
        try:
            return read_crm.find_known(self.hub, self.account, contact_id)
        except NotFound as exc:
            raise NotFound(f"{where}: {exc.message}; find_contacts finds ids.") from None

    def _crm_id(self, contact_id: str, where: str) -> str:
        known = self.known_contact(contact_id, where)
        if not known.crm_id:
            raise NotFound(
                f"{where}: the lead of contact {shortened(contact_id)} has not reached the CRM yet."
            )
        return known.crm_id

    def shown_id(self, id: int, properties: Mapping[str, str]) -> str:
        return properties[copied.ID] if self.is_copied else str(id)


# A docstring of a model would be part of its schema.


class Arguments(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", alias_generator=to_camel)


class Shown(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Resource = Literal["contacts", "deals", "companies", "tickets"]
RESOURCE = "The kind of record."
Text = Annotated[str, StringConstraints(strip_whitespace=True)]
RecordId = Annotated[
    Text,
    BeforeValidator(_number_as_text),
    WithJsonSchema({"type": ["string", "integer"]}),
    Field(examples=["481516234211"]),
]
Scalar = Annotated[
    str,
    BeforeValidator(from_json),
    WithJsonSchema({"type": ["string", "number", "boolean", "null"]}),
]
Names = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=100)]],
    Field(
        min_length=1,
        max_length=MAX_ASKED_PROPERTIES,
        description="Only these properties are shown; without it all that have a value.",
        examples=[["email", "lifecyclestage"]],
    ),
]


PropertyValues = Annotated[
    dict[str, Scalar],
    Field(
        max_length=MAX_ASKED_PROPERTIES,
        description="Property names and values, as list_properties names them.",
        examples=[{"jobtitle": "Engineer"}],
    ),
]
Key = Annotated[
    str,
    Field(
        max_length=200,
        pattern=r"^[!-~]([ -~]*[!-~])?$",
        description="Names this call: sent again within 24 hours, it is answered with the first"
        " result.",
        examples=["order-4711"],
    ),
]
DRY_RUN = "true: check, say what would happen, and write nothing."


class Writing(Arguments):
    dry_run: bool = Field(False, description=DRY_RUN)
    idempotency_key: Key = ""


class Paged(Arguments):
    cursor: str = Field(
        "",
        max_length=8000,
        description="The previous answer's cursor; send the other arguments unchanged.",
    )


@cache
def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """A JSON Schema without references, titles and defaults that only say that nothing was sent."""
    schema = model.model_json_schema()
    shown: dict[str, Any] = _plain(schema, schema.get("$defs", {}))
    # A model reads the tool's own arguments first.
    common = {"limit", "cursor", "dryRun", "idempotencyKey"}
    fields = sorted(shown["properties"].items(), key=lambda field: field[0] in common)
    return {**shown, "properties": dict(fields)}


def _plain(part: Any, models: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_plain(one, models) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        part = models[part["$ref"].rpartition("/")[2]] | part
    return {
        name: _plain(value, models)
        for name, value in part.items()
        if name not in ("$ref", "$defs")
        and not (name == "title" and isinstance(value, str))
        and not (name == "default" and value in ("", [], {}))
    }


GivenArguments = TypeVar("GivenArguments", bound=Arguments)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that agents call; it decorates its function.

    `kinds` and `rights` (`read`, `write`) give the scopes. With the argument `resource`, a call is
    of this kind. `takes_for` returns the arguments of an account that differ from `takes`. The
    description is the function's docstring.
    """

    title: str
    answers: type[Shown]
    kinds: Sequence[str]
    rights: tuple[str, ...] = ("read",)
    takes_for: Callable[[Account], type[Arguments]] | None = None
    destructive: bool = False
    idempotent: bool = False
    name: str = ""
    description: str = ""
    takes: type[Arguments] = Arguments
    run: Callable[[Agent, Any], Answer] = lambda agent, given: {}

    def __call__(self, run: Callable[[Agent, GivenArguments], Answer]) -> Tool:
        words = " ".join((run.__doc__ or "").split())
        takes = get_type_hints(run)["given"]
        return replace(self, name=run.__name__, description=words, takes=takes, run=run)

    @property
    def reads_only(self) -> bool:
        return "read" in self.rights

    def kinds_for(self, scopes: Collection[str]) -> list[str]:
        return [
            kind for kind in self.kinds if any(f"{kind}:{one}" in scopes for one in self.rights)
        ]

    def arguments_of(self, account: Account) -> type[Arguments]:
        return self.takes_for(account) if self.takes_for else self.takes

    def described(self, agent: Agent) -> mcp_types.Tool:
        takes = schema_of(self.arguments_of(agent.account))
        if resource := takes["properties"].get("resource"):
            kinds = self.kinds_for(agent.scopes)
            named = {**resource, "enum": kinds}
            if named.get("default") not in (None, *kinds):
                del named["default"]
            takes = {**takes, "properties": {**takes["properties"], "resource": named}}
        return mcp_types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=takes,
            output_schema=answers_of(self),
            annotations=mcp_types.ToolAnnotations(
                title=self.title,
                read_only_hint=self.reads_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent or self.reads_only,
                open_world_hint=False,
            ),
        )

    def call(self, agent: Agent, sent: Mapping[str, Any]) -> Answer:
        """Raises BadRequest, Forbidden if the key lacks a scope, and the errors of the tool."""
        self.require(agent, self.kinds)
        given = parse(self.arguments_of(agent.account), sent)
        if resource := getattr(given, "resource", ""):
            self.require(agent, [resource])
        return self.run(agent, given)

    def require(self, agent: Agent, kinds: Collection[str]) -> None:
        if not set(kinds) & set(self.kinds_for(agent.scopes)):
            lacking = " or ".join(f"{kind}:{self.rights[0]}" for kind in kinds)
            raise Forbidden(
                f"{self.name}: this key lacks the scope {lacking}. Do not call it again with this"
                " key; tell the user that an operator can create a key that has it."
            )


def answers_of(tool: Tool) -> dict[str, Any]:
    """The names and types of an answer; models read the answers themselves."""
    named = schema_of(tool.answers)["properties"]
    return {
        "type": "object",
        "properties": {name: {"type": one["type"]} for name, one in named.items()},
    }


def parse(model: type[GivenArguments], sent: Mapping[str, Any]) -> GivenArguments:
    """Raises a BadRequest that says for each wrong argument what to send."""
    try:
        return model.model_validate(sent)
    except ValidationError as exc:
        errors = exc.errors(include_url=False)
        raise BadRequest(listed([_problem(schema_of(model), one) for one in errors])) from None


_WORDS = {
    "missing": "is missing",
    "dict_type": "must be an object",
    "list_type": "must be an array",
    "model_type": "must be an object",
}


def _problem(schema: Mapping[str, Any], error: ErrorDetails) -> tuple[str, str]:
    """The path of a wrong argument, and what is wrong with it and what to send."""
    path, around = "", schema
    for step in error["loc"]:
        around = schema
        if isinstance(step, int):
            path, schema = f"{path}[{step}]", schema["items"]
        else:
            # An empty name would look like the object itself.
            name = shortened(step) or '""'
            path = f"{path}.{name}" if path else name
            schema = schema.get("properties", {}).get(step) or {}
    if error["type"] == "extra_forbidden":
        known = around["properties"]
        near = difflib.get_close_matches(str(error["loc"][-1])[:100], known, n=1)
        meant = f" did you mean {near[0]}?" if near else ""
        return path, f"is not known here;{meant} known are {', '.join(known)}"
    message = error["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    words = _WORDS.get(error["type"], message)
    example = json.dumps(schema["examples"][0]) if "examples" in schema else ""
    return path, f"{words}; send for example {example}" if example else words
