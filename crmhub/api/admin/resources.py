"""Routes of the admin API, made from the descriptions of what operators see and do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import flask
import marshmallow as ma
from marshmallow import validate

from crmhub.api.admin.blueprint import blueprint, documented
from crmhub.api.admin.callers import author
from crmhub.api.admin.lists import Age, Filled, Listing, PageQuery, Period, account_named, all_of
from crmhub.api.http.answers import as_json, nothing
from crmhub.api.http.authentication import hub, needs
from crmhub.api.http.field_types import (
    Between,
    Choice,
    Flag,
    Items,
    Joined,
    Properties,
    Strict,
    Text,
    Words,
)
from crmhub.api.http.resource_schemas import page_of, schema_of, shown
from crmhub.api.public.event_subscriptions import (
    ReplayInput,
    SubscriptionChange,
    SubscriptionInput,
)
from crmhub.api.public.properties import in_path
from crmhub.errors import Semantic
from crmhub.identity.bindings import LONGEST
from crmhub.operators.resources import Argument, Verb, named, snake_case

_DATE = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})?"
_SAID = re.compile(f"^{_DATE}({_TIME})?$")


class _GivenMoment(Text):
    """Field for a date, or a date with time, loaded as ms since 1970; UTC without an offset."""

    def _deserialize(self, value: Any, attr: Any, data: Any, **kwargs: Any) -> Any:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not _SAID.fullmatch(text):
            raise ma.ValidationError(
                "must be a date such as 2031-12-31, or with its time 2031-12-31T08:00:00Z"
            )
        try:
            read = datetime.fromisoformat(text)
            # OverflowError: in UTC it may lie beyond the year 9999.
            read = (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            # 422, because the pattern in the schema accepts days such as 2031-02-30.
            raise Semantic(f"{self.data_key}: {text} is not in the calendar.") from None
        return int(read.timestamp() * 1000)


def _some(given: Any) -> None:
    if not given:
        raise ma.ValidationError("is empty; leave it out, or name some")


def _some_or_all(given: Any) -> None:
    if not given:
        raise ma.ValidationError("is empty; leave it out for all, or name some")


# --- inputs ----------------------------------------------------------------------------------


def _filled(argument: Argument, says: Mapping[str, Any], given: Mapping[str, Any]) -> Filled:
    return Filled(says["description"], argument.longest or 0, **given)


def _words(argument: Argument, says: Mapping[str, Any], given: Mapping[str, Any]) -> Words:
    shape = {**says, "minItems": 1}
    check = _some if argument.type == "several" else _some_or_all
    return Words(named(argument.words), validate=check, metadata=shape, **given)


def _text(argument: Argument, says: Mapping[str, Any], given: Mapping[str, Any]) -> Text:
    check = validate.Length(max=argument.longest) if argument.longest else None
    return Text(metadata=says, validate=check, **given)


_GIVEN: Mapping[str, Callable[[Argument, Mapping[str, Any], Mapping[str, Any]], Any]] = {
    "text": _text,
    "filled": _filled,
    "account": _filled,
    "words": _words,
    "several": _words,
    "joined": lambda it, says, given: Joined(named(it.words), metadata=says, **given),
    "choice": lambda it, says, given: Choice(named(it.words), metadata=says, **given),
    "flag": lambda _, says, given: Flag(metadata=says, **given),
    "texts": lambda _, says, given: Properties(metadata=says, **given),
    "age": lambda _, says, given: Age(says["description"], **given),
    "period": lambda _, says, given: Period(says["description"], **given),
    "moment": lambda _, says, given: _GivenMoment(
        metadata={"pattern": _SAID.pattern, **says}, **given
    ),
    "number": lambda it, says, given: Between(
        it.least or 0, it.longest or 0, metadata=says, **given
    ),
    "ids": lambda it, says, given: Items(
        Filled("Its id.", it.longest or 0),
        validate=_some,
        metadata={**says, "minItems": 1},
        **given,
    ),
}


# Those of the public API, which take the same values.
_WRITTEN = {each.__name__: each for each in (ReplayInput, SubscriptionChange, SubscriptionInput)}


def _input(name: str, arguments: Iterable[Argument], base: type[ma.Schema]) -> type[ma.Schema]:
    made = {}
    for argument in arguments:
        says = {"description": argument.says, **dict(argument.shape)}
        given: dict[str, Any] = {"data_key": argument.key}
        if argument.required:
            given["required"] = True
        made[argument.name] = _GIVEN[argument.type](argument, says, given)
    return base.from_dict(made, name=name)


# --- routes ----------------------------------------------------------------------------------


_LONGEST_IN_PATH = {
    "cause": 64,
    "fix": 64,
    "contact_id": LONGEST,
    "other_id": LONGEST,
    "owner": LONGEST,
    "subscription_id": 100,
    "team": 100,
    "workflow_id": LONGEST,
}


def add_routes(*verbs: Verb) -> None:
    for verb in verbs:
        _add_route(verb)


def _add_route(verb: Verb) -> None:
    method, _, path = verb.route.partition(" ")
    schema = None
    if verb.shows:
        schema = (page_of if verb.many else schema_of)(verb.shows)
    view: Any = _view(verb)
    arguments = [argument for argument in verb.arguments if argument.wire is not None]
    if verb.input:
        base = PageQuery if verb.place else Strict
        schema_in = _WRITTEN.get(verb.input) or _input(verb.input, arguments, base)
        location = "query" if method == "GET" else "json"
        view = blueprint.arguments(schema_in(), location=location)(view)
    view = needs(verb.scope)(view)
    view = documented(
        verb.operation, _status(verb), schema, verb.summary.rstrip("."), errors=verb.errors
    )(view)
    parameters = [
        in_path(name, minLength=1, maxLength=_LONGEST_IN_PATH[name])
        for name in verb.path_names
        if name in _LONGEST_IN_PATH
    ]
    blueprint.route(path, methods=[method], parameters=parameters)(view)


def _status(verb: Verb) -> int:
    return verb.status or (200 if verb.shows else 204)


def _view(verb: Verb) -> Callable[..., flask.Response]:
    accounts = [each.name for each in verb.arguments if each.type == "account"]

    def view(*read: dict[str, Any], **given: Any) -> flask.Response:
        values = dict(read[0]) if read else {}
        listing = None
        if verb.place:
            if [*given] == ["client_id"]:
                # An unknown account is 404, also with a cursor that cannot be read.
                hub().load_account(given["client_id"])
            listing = Listing.from_query(f"{verb.operation} {given}", values)
            values = {**listing.filters, "after": listing.after, "limit": listing.limit + 1}
        for name in accounts:
            if name in values:
                values[name] = account_named(values[name])
        result = verb.run(hub(), author, {**given, **values})
        if verb.shows is None:
            return nothing()
        if listing and verb.place:
            shows = schema_of(verb.shows)()
            return listing.page(result, shows.dump, verb.place)
        if verb.many:
            return all_of(shown(verb.shows, result, many=True))
        return as_json(shown(verb.shows, result), _status(verb))

    view.__name__ = snake_case(verb.operation)
    return view
