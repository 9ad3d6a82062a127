"""Descriptions of what operators see and do: each name in them is one that exists."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature

from crmhub.operators.resources import Verb, named

DESCRIPTIONS = (
    "accounts.key_resource",
    "accounts.resources",
    "actions.resources",
    "audit_resource",
    "duplicates.resources",
    "events.resources",
    "users.token_resource",
)


def verbs():
    for name in DESCRIPTIONS:
        for each in vars(import_module(f"crmhub.operators.{name}")).values():
            for one in each if isinstance(each, tuple) else (each,):
                if isinstance(one, Verb):
                    yield one


def test_a_verb_gives_its_function_what_that_takes():
    for verb in verbs():
        parameters = signature(named(verb.does)).parameters
        if not any(each.kind is Parameter.VAR_KEYWORD for each in parameters.values()):
            given = {*verb.path_names, *(argument.name for argument in verb.arguments)}
            if "account" in parameters:
                given.discard("client_id")
            assert given - {*parameters} == set(), verb.does


def test_the_words_of_arguments_and_columns_exist():
    listed = [*verbs()]
    words = {argument.words for verb in listed for argument in verb.arguments}
    words |= {column.words for verb in listed if verb.shows for column in verb.shows.columns}
    for name in words - {""}:
        assert named(name), name
