"""The tables of docs/adapters.md that are made from the code."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import get_args

import crmhub.adapter
from crmhub.adapter import Adapter, Linked, has_oauth, tables
from crmhub.adapter import features as overridden
from crmhub.adapter.bot_names import BOT_NAMES
from crmhub.adapter.registry import Registry
from crmhub.adapter.rest_adapter import RestAdapter
from crmhub.adapter.table_adapter import TableAdapter
from crmhub.adapter.types import FORMS

_BASES: Mapping[str, type[TableAdapter]] = {
    "RestAdapter": RestAdapter,
    "TableAdapter": TableAdapter,
}
_SKELETON = Path(crmhub.adapter.__file__).parent / "skeleton"

FEATURES: Mapping[str, str] = {
    "active_workflow": "the workflow a contact is in",
    "add_note": "notes on a record's timeline",
    "archive": "records deleted",
    "changed_since": "what changed in the CRM",
    "check": "tests the connection",
    "create_task": "tasks for a contact",
    "describe": "properties with their options",
    "events": "the CRM's webhooks",
    "find_contacts": "contacts found in one call",
    "find_marked": "whether a write took effect",
    "get_records": "records of any kind read by their ids",
    "link": "associations made and removed",
    "merge": "contacts or companies merged",
    "owners": "people to whom records can be given",
    "pipelines": "pipelines and stages",
    "write": "records of any kind written",
    "write_contacts": "contacts written in one call",
}
"""What each optional method of an adapter does."""
_BATCHES = {"find_contacts", "write_contacts"}
_TRAITS: Mapping[str, Callable[[type[Adapter]], str]] = {
    "tells equal records apart (`find_apart`)": lambda one: _yes(
        one.find_apart is not Adapter.find_apart
    ),
    "pages for people (`record_pages`)": lambda one: _yes(one.record_pages),
    "the Connect button (`oauth`)": lambda one: _yes(has_oauth(one)),
    "one property for the name (`whole_name`)": lambda one: one.whole_name or "-",
    "several emails of a contact (`email_names`)": lambda one: _yes(len(one.email_names) > 1),
    "emails are unique in the CRM (`unique_emails`)": lambda one: _yes(one.unique_emails),
    "titles are unique in the CRM (`unique_titles`)": lambda one: (
        ", ".join(sorted(one.unique_titles)) or "-"
    ),
    "deletions are not told (`untold_deletions`)": lambda one: (
        ", ".join(sorted(one.untold_deletions)) or "-"
    ),
    "a lost write may take effect for (`under_way_s`)": lambda one: f"{one.under_way_s:g} s",
}


def _yes(truth: bool) -> str:
    return "yes" if truth else "-"


def features() -> str:
    """Return the table of what each adapter that comes with the hub can do."""
    registry = Registry()
    names = [one.name for one in registry.installed() if one.distribution == "crmhub"]
    classes = [registry.load(name) for name in names]
    rows = [["Feature", *names], ["---"] * (1 + len(names))]
    rows.append(["contacts", *("yes" for _ in names)])
    rows += [[kind, *(_linked(one, kind) for one in classes)] for kind in get_args(Linked)]
    for feature, words in FEATURES.items():
        told = [_feature(one, feature) for one in classes]
        rows.append([f"`{feature}`: {words}", *told])
    rows += [[words, *map(trait, classes)] for words, trait in _TRAITS.items()]
    return _table(rows)


def _feature(adapter: type[Adapter], feature: str) -> str:
    if feature in _BATCHES:
        return str(adapter.batch_size)
    return _yes(feature in overridden(adapter))


def _linked(adapter: type[Adapter], kind: Linked) -> str:
    setting = adapter.linked_kinds.get(kind)
    if setting is None:
        return "-"
    return f"with `{setting}`" if setting else "yes"


def names() -> str:
    """Return the table of the names that bots use, by kind of record."""
    rows = [["Kind", "Name", "Example"], ["---"] * 3]
    rows += [
        [kind, f"`{name}`", f"`{example}`"]
        for kind, examples in BOT_NAMES.items()
        for name, example in examples.items()
    ]
    return _table(rows)


def types() -> str:
    """Return the table of how an adapter writes the values of each type."""
    rows = [["Type", "Text", "Example"], ["---"] * 3]
    for name, form in FORMS.items():
        example = form.example.replace("\n", "\\n")
        rows.append([f"`{name}`", form.words, f"`{example}`"])
    return _table(rows)


def hooks() -> str:
    """Return the table of the hooks of the base class, in the order of their use."""
    hooks = {n: one for n, one in vars(TableAdapter).items() if inspect.isfunction(one)}
    names = list(hooks)
    hooks = {n: hooks[n] for n in names[names.index("find") : names.index("page") + 1]}
    rows = [["Hook", "Required", "Does"], ["---"] * 3]
    for name, hook in hooks.items():
        parameters = list(inspect.signature(hook).parameters)[1:]
        [words, *_] = (inspect.getdoc(hook) or "").split("\n\n")
        required = "yes" if name in TableAdapter.__abstractmethods__ else ""
        text = " ".join(words.split()).rstrip(".").replace("|", "\\|")
        rows.append([f"`{name}({', '.join(parameters)})`", required, text])
    return _table(rows)


def attributes(name: str) -> str:
    """Return the table of the class attributes of a base class, with their docstrings."""
    base = _BASES[name]
    [tree] = [
        node
        for node in ast.parse(Path(inspect.getfile(base)).read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == name
    ]
    rows = [["Attribute", "Default", "Says"], ["---"] * 3]
    for one, after in pairwise(tree.body):
        match one, after:
            case (
                ast.AnnAssign(target=ast.Name(id=attribute), value=value),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                default = f"`{ast.unparse(value)}`" if value else ""
                rows.append([f"`{attribute}`", default, " ".join(text.split()).rstrip(".")])
    return _table(rows)


def members(name: str) -> str:
    """Return the list of the members of a table, as its docstring has it."""
    text = inspect.getdoc(getattr(tables, name)) or ""
    return re.sub(r"(?m)^    (?=- |  \S)", "", text)


def files() -> str:
    """Return the table of what `crmhub adapter new` makes, with its numbers of lines."""
    rows = [["File", "Lines", "Holds", "You change"], ["---"] * 4]
    for name, holds, change in (
        ("crmhub_acme.py", "the adapter", "names of properties, fields, addresses, errors"),
        ("tests/fake_acme.py", "a fake of the CRM over real HTTP", "what it answers and refuses"),
        ("tests/test_acme.py", "the conformance tests, subclassed", "what is peculiar to the CRM"),
        ("pyproject.toml", "the entry point `acme`", "description and version"),
    ):
        lines = len((_SKELETON / name).read_text().splitlines())
        rows.append([f"`{name}`", str(lines), holds, change])
    return _table(rows)


def _table(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


MAKERS: Mapping[str, Callable[..., str]] = {
    "attributes": attributes,
    "features": features,
    "files": files,
    "hooks": hooks,
    "members": members,
    "names": names,
    "types": types,
}
