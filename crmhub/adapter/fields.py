"""Property definitions of a CRM that has names and types of its own for its fields."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from crmhub.adapter.coercion import Misfit
from crmhub.adapter.definitions import Definitions
from crmhub.adapter.errors import Conflict, Problem, Rejected
from crmhub.adapter.remembered import HOUR
from crmhub.adapter.values import Described, Kind
from crmhub.translatable import translatable

F = TypeVar("F", bound="Field")


@dataclass(frozen=True, slots=True)
class Field(Described):
    """`theirs`, `their_type`: the field's name and type in the CRM. `longest`: most characters, or
    0. `single_line`: no tabs, no line breaks. `is_user`: an owner's id, whom bots name by email.
    """

    theirs: str = ""
    their_type: str = ""
    longest: int = 0
    single_line: bool = False
    is_user: bool = False


class Fields(Definitions, Generic[F]):
    types: tuple[type, ...] = (Field,)

    @abstractmethod
    def load_fields(self, kind: Kind) -> Iterable[F]:
        """Read the fields of a kind of record."""

    def load_list(self, name: str, kind: Kind) -> dict[str, Described] | None:
        return {field.name: field for field in self.load_fields(kind)}

    def fields(self, kind: Kind, *, newer_than: float = HOUR) -> Mapping[str, F]:
        return cast("Mapping[str, F]", self.listed(self.lists[0], kind, newer_than=newer_than))

    def values(
        self, kind: Kind, properties: Mapping[str, str], convert: Callable[[F, str], Any]
    ) -> dict[str, Any]:
        """Raises Rejected for each Misfit of `convert`, and for a property sent under two names."""
        fields, values = self.fields(kind), dict[str, Any]()
        problems: list[Problem] = []
        for name, text in properties.items():
            field = fields[name]
            if field.theirs in values:
                problems.append(Problem(name, translatable("it is sent under two names")))
                continue
            try:
                values[field.theirs] = convert(field, text)
            except Misfit as exc:
                problems.append(Problem(name, str(exc), exc.options))
        if problems:
            raise Rejected(problems)
        return values

    @contextmanager
    def renamed(self, kind: Kind, sent: Iterable[str]) -> Iterator[None]:
        try:
            yield
        except Conflict as exc:
            exc.name = self._name(kind, exc.name, sent)
            raise
        except Rejected as exc:
            exc.rename(lambda name: self._name(kind, name, sent))
            raise

    def _name(self, kind: Kind, theirs: str, sent: Iterable[str]) -> str:
        fields = self.fields(kind)
        for name in (*sent, *(field.name for field in fields.values())):
            if name in fields and fields[name].theirs == theirs:
                return name
        return theirs
