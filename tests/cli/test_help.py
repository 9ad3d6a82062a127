"""crmhub --help: commands in groups, an example for each that can be typed, and completion."""

from __future__ import annotations

import io
import shlex

import pytest
import rich_click as click
from click.testing import CliRunner

from crmhub.cli import main
from crmhub.cli.examples import EXAMPLES
from crmhub.cli.fake import fake
from tests.cli.conftest import environment
from tests.processes import FORKED

pytestmark = pytest.mark.databases("sqlite")


def leaves(command, *words):
    """Yield each command that is no group, by the words that call it; `fake` stands for its own."""
    below = getattr(command, "commands", {})
    if not below:
        yield " ".join(words)
    for name, each in below.items():
        yield from leaves(each, *words, name)


def test_each_command_has_one_example_and_shows_it(crmhub):
    assert sorted(EXAMPLES) == sorted(leaves(main))
    printed = crmhub("account", "create", "--help").stdout
    assert f"Example: {EXAMPLES['account create']}" in printed


def groups(command, *words):
    """Yield the words that call each group of commands, and the names of its commands."""
    if below := getattr(command, "commands", {}):
        yield words, [*below]
        for name, each in below.items():
            yield from groups(each, *words, name)


def test_each_group_shows_its_commands():
    for words, names in groups(main):
        shown = CliRunner().invoke(main, [*words, "--help"])
        assert (shown.exit_code, shown.exception) == (0, None), words
        assert [name for name in names if name not in shown.output] == []


def test_each_example_can_be_typed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("accounts.toml", "map.json", "people.csv", "crmhub.backup", "token.txt"):
        (tmp_path / name).touch()
    for example in EXAMPLES.values():
        monkeypatch.setattr("sys.stdin", io.StringIO("a long password"))
        name, *words = shlex.split(example.partition(" > ")[0])
        context, command = None, main
        while isinstance(command, click.Group):
            # This raises UsageError for an unknown command, option or value.
            context = command.make_context(name, words, parent=context)
            name, command, words = command.resolve_command(
                context, [*context._protected_args, *context.args]
            )
        assert command is not None, example
        command.make_context(name, words, parent=context)


def options(command, path=()):
    """Yield each option that takes a value, with its command and the words that call it."""
    for option in command.params:
        if isinstance(option, click.Option) and not option.is_flag:
            yield path, command, option
    for name, below in getattr(command, "commands", {}).items():
        yield from options(below, (*path, name))


def test_each_option_refuses_a_blank_value(crmhub):
    hubspot = fake.get_command(click.Context(fake), "hubspot")
    listed = [*options(main), *options(hubspot, ("fake", "hubspot"))]
    assert len(listed) > 80
    for path, command, option in listed:
        for name in option.opts:
            for blank in ("", *(" ", "\t", "\u00a0") * (option.name != "delimiter")):
                words = [name, *[blank] * option.nargs]
                with pytest.raises(click.UsageError) as refused:
                    command.make_context(" ".join(path), words)
                assert f"'{name}'" in refused.value.format_message()
    typed = crmhub("actions", "discard", "--token=", "--yes", code=2)
    assert "'--token': it is blank" in typed.stderr


def test_each_command_stands_in_a_group(crmhub):
    printed = crmhub("--help").stdout
    assert "─ Commands ─" not in printed
    for title in ("Run the service", "Accounts and their CRM", "Follow and fix", "Operators"):
        assert f"─ {title} ─" in printed


def test_the_shell_completes_commands_and_values(tmp_path):
    def complete(shell, line, kind="complete"):
        # fish names the word to complete, the others its number.
        position = "" if shell == "fish" else str(line.count(" "))
        words = {"COMP_WORDS": line, "COMP_CWORD": position}
        words["_CRMHUB_COMPLETE"] = f"{shell}_{kind}"
        return FORKED.run(cwd=tmp_path, env=environment() | words).stdout

    for shell in ("bash", "zsh", "fish"):
        assert "_CRMHUB_COMPLETE" in complete(shell, "", "source")
        assert "parked" in complete(shell, "crmhub actions list --state ")
