from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import Tool as Described
from mcp_types import ToolAnnotations

from crmhub.accounts.accounts import Account
from crmhub.api.agents.agent import Agent
from crmhub.api.agents.arguments import check
from crmhub.api.agents.schemas import Shape
from crmhub.errors import Forbidden

Arguments = Mapping[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that agents call.

    `kinds` and `right` (`read` or `write`) give the scopes. With `chooses`, the argument `resource`
    names the kind of a call, `default` without it. `demands` returns the arguments that an account
    requires besides.
    """

    name: str
    title: str
    description: str
    takes: Shape
    answers: Shape
    run: Callable[[Agent, Arguments], Answer]
    kinds: tuple[str, ...]
    rights: tuple[str, ...] = ("read",)
    chooses: bool = False
    default: str = ""
    demands: Callable[[Account], Collection[str]] = lambda account: ()
    destructive: bool = False
    idempotent: bool = False

    @property
    def reads_only(self) -> bool:
        return "read" in self.rights

    def kinds_for(self, scopes: Collection[str]) -> list[str]:
        return [kind for kind in self.kinds if self._may(kind, scopes)]

    def described(self, agent: Agent) -> Described:
        return Described(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.schema_for(agent),
            output_schema=self.answers,
            annotations=ToolAnnotations(
                title=self.title,
                read_only_hint=self.reads_only,
                destructive_hint=self.destructive,
                idempotent_hint=self.idempotent or self.reads_only,
                open_world_hint=False,
            ),
        )

    def takes_of(self, account: Account) -> Shape:
        return {**self.takes, "required": [*self.takes["required"], *self.demands(account)]}

    def schema_for(self, agent: Agent) -> Shape:
        if not self.chooses:
            return self.takes_of(agent.account)
        kinds = self.kinds_for(agent.scopes)
        properties: Shape = self.takes["properties"]
        named = {**properties["resource"], "enum": kinds}
        if named.get("default") not in (None, *kinds):
            del named["default"]
        return {**self.takes, "properties": {**properties, "resource": named}}

    def call(self, agent: Agent, arguments: Arguments) -> Answer:
        """Raises BadRequest, Forbidden if the key lacks a scope, and the errors of the tool."""
        self.require(agent, self.kinds)
        check(self.takes_of(agent.account), arguments)
        if self.chooses:
            self.require(agent, [arguments.get("resource", self.default)])
        return self.run(agent, arguments)

    def require(self, agent: Agent, kinds: Collection[str]) -> None:
        if not any(self._may(kind, agent.scopes) for kind in kinds):
            lacking = " or ".join(f"{kind}:{self.rights[0]}" for kind in kinds)
            raise Forbidden(
                f"{self.name}: this key lacks the scope {lacking}. Do not call it again with this"
                " key; tell the user that an operator can create a key that has it."
            )

    def _may(self, kind: str, scopes: Collection[str]) -> bool:
        return any(f"{kind}:{right}" in scopes for right in self.rights)
