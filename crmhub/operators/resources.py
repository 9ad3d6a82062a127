"""What operators see and do, described once, as data: columns, arguments and verbs.

`crmhub.api.admin.resources` makes routes and schemas of the admin API from the descriptions,
`crmhub.cli.resources` commands, their tables and `--json`. Descriptions name functions and words
as "module:name", so that `crmhub --help` imports none of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from inspect import signature
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from crmhub.audit import Author
    from crmhub.hub import Hub
# Errors of operations that know their account and conflict with nothing, without and with a body.
WITHOUT_BODY = (400, 401, 403, 404, 429, 500, 503)
WITH_BODY = (400, 401, 403, 404, 413, 415, 422, 429, 500, 503)


def named(name: str) -> Any:
    """Return what a description names as "module:name"."""
    module, _, inside = name.partition(":")
    return attrgetter(inside)(import_module(module))


@dataclass(frozen=True)
class Column:
    """A value of a resource.

    `wire`: its name in JSON; "" for a value that only tables show. `type`: `text`, `number`,
    `decimal`, `flag`, `moment` (ms since 1970), `words`, `texts`, `numbers`, `moments` or `by
    name` (objects), `any`, or another Resource, of which there is a list if `many`; in tables
    also `validity`. `of`: the attribute, with dots, or a function of the item; not given: the
    wire's name in snake_case. `title`: its heading in tables, "" for none; `cell`: its text
    there, around the value; `never`: that of no moment; `shorten`: in a table wider than the
    terminal, the columns with 1 are shortened first, those with 0 never. `says`: its
    description. `words`: those it may have. `null`: it may be null. `always`: it is in each
    answer.
    """

    wire: str
    type: str | Resource | Callable[[], Resource] = "text"
    says: str = ""
    title: str = ""
    of: str | Callable[[Any], Any] = ""
    cell: str = "{}"
    never: str = "never"
    shorten: int = 0
    words: str = ""
    null: bool = False
    many: bool = False
    always: bool = True
    least: int | None = None

    @property
    def name(self) -> str:
        return snake_case(self.wire)

    def value(self, item: Any) -> Any:
        of = self.of or self.name
        if callable(of):
            return of(item)
        return item.get(of) if isinstance(item, Mapping) else attrgetter(of)(item)


def inside(name: str, columns: Iterable[Column]) -> tuple[Column, ...]:
    """Return the columns for items that hold theirs in the attribute `name`."""
    return tuple(replace(each, of=partial(_value_inside, name, each)) for each in columns)


def _value_inside(name: str, column: Column, item: Any) -> Any:
    return column.value(getattr(item, name))


@dataclass(frozen=True)
class Resource:
    """What is shown of an item.

    `name` and `page` are the names of its schema, and of the schema of a page of them, in the
    document of the admin API; `page`, unless given, is made from the name.
    """

    name: str
    columns: tuple[Column, ...]
    page: str = ""


@dataclass(frozen=True)
class Argument:
    """A value that a verb takes, as a keyword `name`.

    `type`: `text`, `number`, `flag`, `moment`, `words`, `texts`, or `choice` (one of the
    words), `several` or, joined by commas in a query, `joined` of them, `filled` (not blank),
    `ids`, `age` (a duration such as 7d, in ms), `period` (as in `crmhub.periods`, as its begin and
    end; days are those of the command's machine, or in UTC in the admin API), `account` (a client
    id, given as the account).
    `option`: the command's, such as `--scope`; "" for a word at its place, None where the
    command has it not. `wire`: its name in JSON, None where the admin API has it not. `says`
    describes it for both, `command_says` for the command alone. `default`: what the command
    gives without it; the admin API leaves it out. `shape`: what the document says of it
    beside. `spelled`: the command's spelling of words.
    """

    name: str
    type: str = "text"
    says: str = ""
    option: str | None = None
    metavar: str | None = None
    wire: str | None = ""
    command_says: str = ""
    required: bool = False
    words: str = ""
    longest: int | None = None
    least: int | None = None
    default: Any = None
    shape: tuple[tuple[str, Any], ...] = ()
    spelled: Mapping[str, str] | None = None

    @property
    def key(self) -> str:
        """Its name in JSON."""
        return self.wire or camel_case(self.name)


@dataclass(frozen=True, kw_only=True)
class Verb:
    """Something that operators do.

    `does`: the function, which takes the hub or its database, by name the values in the path
    and the arguments, and `by` where it writes. It may take `account` in place of `client_id`.
    `summary`: one sentence, for both faces.

    The admin API: `operation`, its id; `route`, method and path; `scope`; `status`, 0 for 200,
    or 204 without a resource; `errors`, where they do not follow from the rest; `input`, the
    name of the schema of the arguments, which the admin API may have by this name already. In
    a list of several pages, `place` gives the key of an item, which `after` of the function
    takes.

    The command: `command`, its words, of which the group of `cli` gives all but the last;
    `help`, further paragraphs; `says`, what it prints: a text with the values in braces, or
    lines from the result and the values; `after`, a last line. `confirm`: what it asks before,
    unless `--yes` is given; a function gets the hub and the values. `table`: what its table shows,
    where that is more than `shows`, and the function that makes its items from the hub and theirs.
    """

    does: str
    summary: str
    operation: str = ""
    route: str = ""
    scope: str = ""
    status: int = 0
    errors: tuple[int, ...] = ()
    input: str = ""
    arguments: tuple[Argument, ...] = ()
    shows: Resource | None = None
    many: bool = False
    table: tuple[Resource, Callable[[Hub, Any], Any]] | None = None
    place: Callable[[Any], Any] | None = None
    command: str = ""
    help: str = ""
    says: str | Callable[..., Any] = ""
    after: str = ""
    confirm: str | Callable[..., str] = ""

    @property
    def path_names(self) -> list[str]:
        return re.findall(r"<(?:\w+:)?(\w+)>", self.route)

    def run(self, hub: Hub, by: Callable[[], Author], values: Mapping[str, Any]) -> Any:
        """Call the function; `by` is asked for the author only of what writes."""
        does, values = named(self.does), dict(values)
        names = signature(does).parameters
        if "account" in names and "client_id" in values:
            values["account"] = hub.load_account(values.pop("client_id"))
        target = hub.database if "database" in names else hub
        return does(target, **values, **({"by": by()} if "by" in names else {}))


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).replace(" ", "_").lower()


def camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
