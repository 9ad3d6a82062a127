"""Commands and their tables, made from the descriptions of what operators see and do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, TypeVar

import rich_click as click

from crmhub.cli.inputs import as_mapping, assignment, duration, moment, period
from crmhub.cli.open_hub import author, opened_hub
from crmhub.cli.output import in_words, print_columns, print_fields, print_json, validity
from crmhub.operators.resources import Argument, Column, Resource, Verb, named

if TYPE_CHECKING:
    from crmhub.hub import Hub


class _Words(click.Choice[str]):
    """A choice of words that a description names; they are imported when they are needed."""

    def __init__(self, argument: Argument) -> None:
        self._argument = argument
        super().__init__(())

    @property
    def choices(self) -> tuple[str, ...]:
        spelled = self._argument.spelled or {}
        words = named(self._argument.words)
        every = [_ALL] if self._argument.default == _ALL else []
        return tuple(dict.fromkeys([*(spelled.get(word, word) for word in words), *words, *every]))

    @choices.setter
    def choices(self, _: Iterable[str]) -> None:
        """Ignore what click stores; the words are the description's."""


_Function = TypeVar("_Function", bound=Callable[..., Any])
_SEVERAL = ("words", "several", "joined", "texts", "ids")
_ALL = "all"


def group(name: str, says: str, *below: Verb | click.Command) -> click.Group:
    """Return a group of commands; a verb is called by the last of its words."""
    made = click.RichGroup(name=name, help=says)
    for each in below:
        made.add_command(command(each) if isinstance(each, Verb) else each)
    return made


def command(verb: Verb) -> click.Command:
    name = verb.command.rpartition(" ")[2]
    params: list[click.Parameter] = [click.Argument([each]) for each in verb.path_names]
    arguments = tuple(each for each in verb.arguments if each.option is not None)
    params += [_parameter(each) for each in arguments]
    if verb.place:
        params.append(_LIMIT)
    if verb.confirm:
        params.append(click.Option(["--yes"], is_flag=True, help="Do not ask."))
    if verb.shows:
        params.append(click.Option(["--json", "as_json"], is_flag=True, help="Print JSON."))
    text = f"{verb.summary.rstrip('.')}.\n\n{verb.help}"
    # rich-click asks for the callback's __name__ when it shows the help of the group.
    run = update_wrapper(partial(_run, verb, arguments), _run)
    return click.RichCommand(name=name, callback=run, params=params, help=text)


_LIMIT = click.Option(
    ["--limit"], type=click.IntRange(1, 500), default=50, show_default=True, help="How many."
)


def _parameter(argument: Argument) -> click.Parameter:
    several = argument.type in _SEVERAL
    kind: Any = {
        "age": duration,
        "moment": moment,
        "period": period,
        "texts": assignment,
    }.get(argument.type)
    if argument.words and argument.type != "words":
        kind = _Words(argument)
    if argument.type == "number":
        kind = click.IntRange(argument.least, argument.longest)
    if not argument.option:
        return click.Argument(
            [argument.name],
            nargs=-1 if several else 1,
            required=argument.required,
            type=kind,
            metavar=argument.metavar,
        )
    says = argument.command_says or argument.says
    return click.Option(
        [argument.option, argument.name],
        help=f"{says.rstrip('.')}; repeatable." if several else says,
        multiple=several,
        is_flag=argument.type == "flag",
        type=None if argument.type == "flag" else kind,
        required=argument.required,
        default=argument.default,
        show_default=argument.default not in (None, ()),
        metavar=argument.metavar,
    )


def takes(*arguments: Argument) -> Callable[[_Function], _Function]:
    """Return a decorator that gives these arguments to the function of a command."""

    def decorate(function: _Function) -> _Function:
        for argument in reversed(arguments):
            made = _parameter(argument)
            params: list[click.Parameter] = vars(function).setdefault("__click_params__", [])
            params.append(made)
        return function

    return decorate


def values_of(hub: Hub, arguments: Iterable[Argument], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of arguments that were given, as functions of operations take them."""
    values = {}
    for argument in arguments:
        value = given.get(argument.name)
        if value is None or value == () or value == _ALL == argument.default:
            continue
        if argument.type == "texts":
            value = as_mapping(value, argument.option or argument.metavar or argument.name)
        elif argument.type == "account":
            value = hub.load_account(value)
        elif argument.spelled:
            wire = {shown: word for word, shown in argument.spelled.items()}
            value = tuple(wire.get(word, word) for word in value)
            # All types include each other one.
            value = ("*",) if "*" in value else value
        values[argument.name] = value
    return values


def _run(verb: Verb, arguments: tuple[Argument, ...], /, **given: Any) -> None:
    as_json, yes = given.pop("as_json", False), given.pop("yes", False)
    values = {name: given[name] for name in verb.path_names}
    if verb.place:
        values["limit"] = given["limit"]
    with opened_hub() as hub:
        values |= values_of(hub, arguments, given)
        if verb.confirm and not yes:
            asks = verb.confirm
            question = asks(hub, **values) if callable(asks) else asks.format(**given)
            click.confirm(question, abort=True)
        result = verb.run(hub, author, values)
        if verb.shows and as_json:
            print_shown(verb.shows, result, many=verb.many)
            return
        resource = verb.shows
        if verb.table:
            resource, make_items = verb.table
            result = make_items(hub, result)
    if callable(verb.says):
        for line in verb.says(result, given):
            click.echo(line)
    elif verb.says:
        click.echo(verb.says.format(**given))
    elif resource:
        (print_table if verb.many else print_one)(resource, result)
    if verb.after:
        click.echo(f"\n{verb.after}")


# --- what is shown ---------------------------------------------------------------------------


def print_shown(resource: Resource, items: Any, *, many: bool = False) -> None:
    from crmhub.api.http.resource_schemas import shown

    print_json(shown(resource, items, many=many))


def print_table(resource: Resource, items: Iterable[Any]) -> None:
    columns = [column for column in resource.columns if column.title]
    print_columns(
        [column.title.upper() for column in columns],
        [[_cell(column, item) for column in columns] for item in items],
        shorten=[
            column.title.upper()
            for column in sorted(columns, key=lambda column: column.shorten)
            if column.shorten
        ],
    )


def print_one(resource: Resource, item: Any) -> None:
    columns = [column for column in resource.columns if column.title]
    texts = ((column.title, _cell(column, item, several=", ")) for column in columns)
    print_fields((title, text) for title, text in texts if text)


def _cell(column: Column, item: Any, *, several: str = " ") -> str:
    if column.type == "validity":
        return validity(expires_at=item.expires_at, revoked_at=item.revoked_at)
    value = column.value(item)
    if column.type == "moment":
        value = in_words(value or None, never=column.never)
    elif column.type == "words":
        value = several.join(value)
    return column.cell.format(value)
