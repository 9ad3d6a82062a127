"""The definitions of one CRM account: cached for an hour, and shared by all processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import ClassVar, TypeVar

from crmhub.adapter.context import Context
from crmhub.adapter.errors import LacksRight, Unsupported
from crmhub.adapter.reading import Reading
from crmhub.adapter.remembered import HOUR, Remembered
from crmhub.adapter.values import Described, Kind, Linked, Owner, Pipeline

T = TypeVar("T")

# An unknown name reads the first list again, and the others this rarely.
_OTHER_LISTS_S = 600.0
# Chatbots send the same few sets of property names again and again.
_SETS = 256


class Definitions(ABC):
    """Owners are cached by each process for itself, because they are people."""

    lists: ClassVar[tuple[str, ...]] = ("properties",)
    """The lists in which the CRM keeps its property definitions; the first has almost all."""
    hidden: tuple[type[LacksRight], ...] = ()
    """The errors with which the CRM itself, and no proxy, refuses owners or pipelines alone."""
    stale_s = 30.0
    """The greatest age in seconds of a definition by which a value may be refused."""
    types: tuple[type, ...] = ()
    """The subclasses of `Described`, `Pipeline` and `Choice` that the methods `load_…` return."""

    def __init__(self, context: Context, kinds: Iterable[Kind]) -> None:
        self._context = context
        kinds = tuple(kinds)
        self._lists = {
            one: self.shared(one, partial(self.load_list, one), kinds) for one in self.lists
        }
        self._named = lru_cache(maxsize=_SETS)(self._remembered_names)
        self._pipelines = self.shared("pipelines", self.load_pipelines, ("deals", "tickets"))
        self._marks = self.shared("mark", self.load_mark, kinds)
        self._owners = Remembered(self.load_owners, context)

    def shared(
        self, what: str, load: Callable[..., T], kinds: Iterable[Kind]
    ) -> dict[str, Remembered[T]]:
        """Return a value for each kind, which all processes share; `load` gets the kind."""
        return {
            kind: Remembered(
                partial(load, kind), self._context, name=f"{what} {kind}", types=self.types
            )
            for kind in kinds
        }

    @property
    def reading(self) -> Reading:
        return self._context.reading

    @abstractmethod
    def load_list(self, name: str, kind: Kind) -> dict[str, Described] | None:
        """Read a list by property name; None if it is too large: then `load_named` is called."""

    def load_named(self, name: str, kind: Kind, names: Sequence[str]) -> dict[str, Described]:
        raise Unsupported(f"The list of the properties of {kind} is too large.")

    @abstractmethod
    def load_pipelines(self, kind: Linked) -> list[Pipeline]:
        """Read the pipelines of deals or tickets, with their stages."""

    @abstractmethod
    def load_owners(self) -> list[Owner]:
        """Read the users to whom records can be assigned; raises LacksRight."""

    def load_mark(self, kind: Kind) -> tuple[bool, float] | None:
        return None

    def properties(
        self, kind: Kind, names: Iterable[str], *, newer_than: float = HOUR
    ) -> dict[str, Described]:
        """Leave out unknown names; definitions of the last `newer_than` seconds are used."""
        names = set(names)
        definitions = self.in_list(self.lists[0], kind, names, newer_than=newer_than)
        for other in self.lists[1:]:
            missing = names - definitions.keys()
            newer = max(newer_than, _OTHER_LISTS_S)
            definitions |= self.in_list(other, kind, missing, newer_than=newer)
        return definitions

    def in_list(
        self, name: str, kind: Kind, names: Iterable[str], *, newer_than: float = HOUR
    ) -> dict[str, Described]:
        wanted = frozenset(names)
        if not wanted:
            return {}
        definitions = self._lists[name][kind].get()
        # A list that is too large is not reloaded because of an unsuitable value.
        if definitions is not None:
            definitions = self._lists[name][kind].get(newer_than=newer_than)
        if definitions is None:
            definitions = self._named(name, kind, wanted).get(newer_than=newer_than)
        return {one: definitions[one] for one in wanted if one in definitions}

    def listed(self, name: str, kind: Kind, *, newer_than: float = HOUR) -> Mapping[str, Described]:
        """Raises Unsupported if they are too many, or the adapter does not describe this kind."""
        if kind not in self._lists[name]:
            raise Unsupported(f"The adapter describes no {kind}.")
        listed = self._lists[name][kind].get(newer_than=newer_than)
        if listed is None:
            raise Unsupported(f"The CRM's list of the properties of {kind} is too large.")
        return listed

    def described(self, kind: Kind) -> list[Described]:
        definitions: dict[str, Described] = {}
        for name in self.lists:
            definitions |= self.listed(name, kind)
        # A CRM's own name may lead to a definition, too.
        return [one for name, one in definitions.items() if name == one.name]

    def pipelines(self, kind: Linked, *, newer_than: float = HOUR) -> list[Pipeline]:
        return self._pipelines[kind].get(newer_than=newer_than)

    def known_pipelines(self, kind: Linked) -> list[Pipeline] | None:
        """Return the pipelines if they were read within the last hour; sends no request."""
        return self._pipelines[kind].peek()

    def owners(self, *, newer_than: float = HOUR) -> list[Owner]:
        """Return the users to whom records can be assigned; raises LacksRight."""
        return self._owners.get(newer_than=newer_than)

    def mark(self, kind: Kind, *, newer_than: float = HOUR) -> tuple[bool, float] | None:
        """Return whether marks are unique, and when their property changed (0 if unknown).

        None if the account has no such property, or if the hub cannot write text into it.
        """
        return self._marks[kind].get(newer_than=newer_than)

    def _remembered_names(
        self, name: str, kind: Kind, names: frozenset[str]
    ) -> Remembered[dict[str, Described]]:
        load = partial(self.load_named, name, kind, sorted(names))
        return Remembered(load, self._context)
