"""crmhub itself: quick help, one line for each fault, never a traceback."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import CRMHUB, CommandLine, environment
from tests.processes import FORKED


def run(root, *args, **settings):
    return subprocess.run(
        [*CRMHUB, *args],
        cwd=root,
        env=environment(**settings),
        capture_output=True,
        text=True,
    )


@pytest.fixture
def crmhub(tmp_path):
    """The command line, in this process, in a directory where nothing is set up."""
    return CommandLine(tmp_path, {})


def fails_in_one_line(crmhub, *args, code=1, **settings):
    """Return the one line that a command prints on standard error when it fails."""
    crmhub.env.update({f"CRMHUB_{name.upper()}": value for name, value in settings.items()})
    line = crmhub(*args, code=code).stderr
    assert line.startswith("crmhub: ")
    assert line.count("\n") == 1
    return line


def test_help_needs_no_installation(crmhub):
    crmhub.env["CRMHUB_DATABASE_URL"] = "nonsense"
    crmhub("account", "adapter", "--help")
    assert list(crmhub.root.iterdir()) == []


def test_help_comes_at_once_since_it_loads_nothing_heavy(tmp_path):
    code = (
        "import sys\n"
        "from crmhub.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'sqlalchemy', 'flask', 'cryptography', 'granian', 'redis', 'limits', 'alembic'}\n"
        "heavy |= {'marshmallow', 'phonenumbers', 'requests'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or None)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(database_url="nonsense"),
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stderr) == (0, "")
    for command in ("account", "adapters", "db", "demo", "doctor", "key", "serve", "workflow"):
        assert command in told.stdout
    assert list(tmp_path.iterdir()) == []


def test_without_a_command_it_helps(crmhub):
    assert "Usage: crmhub" in crmhub(code=2).stdout


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["acount"], "No such command 'acount'"),
        (["account", "creat"], "No such command 'creat'"),
        (["account", "create"], "Missing argument 'NAME'. See `crmhub account create --help`."),
        (["account", "list", "--jsn"], "No such option '--jsn'"),
        (["serve", "--port", "99999"], "99999 is not in the range 1<=x<=65535"),
    ],
)
def test_misuse_is_told_in_one_line(crmhub, args, words):
    assert words in fails_in_one_line(crmhub, *args, code=2)


@pytest.mark.parametrize(
    "command", [["account", "list"], ["serve"], ["demo"], ["db", "upgrade"], ["doctor"]]
)
def test_faulty_settings_are_named_one_a_line(crmhub, command):
    crmhub.env.update(CRMHUB_PORT="eighty", CRMHUB_DATABASE_URL="mysql://u:hunter2@h/d")
    told = crmhub(*command, code=1 if command == ["doctor"] else 2)
    lines = (told.stdout if command == ["doctor"] else told.stderr).splitlines()
    assert len(lines) == 2
    assert any("CRMHUB_PORT" in line for line in lines)
    assert any("CRMHUB_DATABASE_URL" in line for line in lines)
    assert "hunter2" not in told.output


@pytest.mark.parametrize(
    "command",
    [["account", "list"], ["serve"], ["demo"], ["key", "list", "x"], ["db", "upgrade"]],
)
def test_a_database_that_is_away_is_told_in_one_line(crmhub, command):
    away = "postgresql://u:hunter2@127.0.0.1:1/none"
    line = fails_in_one_line(crmhub, *command, database_url=away)
    assert line.startswith("crmhub: The database c")
    assert "hunter2" not in line


@pytest.mark.parametrize("command", [["account", "list"], ["serve"], ["db", "upgrade"]])
def test_a_file_that_is_no_database_is_told_in_one_line(crmhub, command):
    file = crmhub.root / "no.db"
    file.write_text("This is not a database, whatever its name says. " * 100)
    line = fails_in_one_line(crmhub, *command, database_url="sqlite:///no.db")
    assert "not a database" in line


def test_a_faulty_file_of_plans_is_told_before_anything_starts(crmhub):
    (crmhub.root / "plans.toml").write_text('[gold]\nrate_limit = "fast"\n')
    line = fails_in_one_line(crmhub, "serve", code=2, plans="plans.toml")
    assert "[gold] rate_limit: 'fast' is not a rate" in line


@pytest.mark.parametrize(
    "command", [["account", "list"], ["export", "acme", "contacts", "-"], ["--help"]]
)
def test_output_that_cannot_be_written_is_told_in_one_line(crmhub, tmp_path, command):
    crmhub("account", "create", "Acme")
    with open("/dev/full", "w") as full:
        told = FORKED.run(*command, cwd=tmp_path, env=environment(), stdout=full)
    assert told.returncode == 1
    assert told.stderr == "crmhub: The output cannot be written: No space left on device.\n"


def test_a_command_works_without_standard_streams(crmhub, tmp_path):
    crmhub("account", "create", "Acme")
    closed = 'exec "$@" 0<&- >&- 2>&-'
    export = [*CRMHUB, "export", "acme", "contacts", "out.csv"]
    subprocess.run(["sh", "-c", closed, "sh", *export], cwd=tmp_path, env=environment(), check=True)
    assert (tmp_path / "out.csv").read_text().startswith("id,")


@pytest.mark.parametrize(
    "command",
    [["export", "acme", "contacts", "{}"], ["import", "acme", "contacts", "p", "--refused", "{}"]],
)
def test_a_path_that_cannot_be_looked_at_is_told_in_one_line(crmhub, command):
    crmhub("account", "create", "Acme")
    (crmhub.root / "p").write_text("email\n")
    # Too long for anybody, also for root, whom no mode of a directory stops.
    path = "d" * 300 + "/people.csv"
    line = fails_in_one_line(crmhub, *(word.format(path) for word in command))
    assert line == f"crmhub: {path}: File name too long.\n"


@pytest.mark.parametrize(
    "command",
    [["actions", "list", "--reason"], ["key", "revoke", "acme"], ["audit", "list", "--by"]],
)
def test_arguments_in_another_encoding_are_told_in_one_line(crmhub, command):
    crmhub("account", "create", "Acme")
    line = fails_in_one_line(crmhub, *command, "M\udcfcller", code=2)
    assert line == "crmhub: An argument is not valid UTF-8. Set the terminal to UTF-8.\n"


def test_a_process_fails_in_one_line_too(tmp_path):
    told = run(tmp_path, "actions", "list", "--reason", b"M\xfcller")
    assert told.returncode == 2
    assert told.stderr == "crmhub: An argument is not valid UTF-8. Set the terminal to UTF-8.\n"


@pytest.mark.parametrize(
    ("command", "code", "category", "words"),
    [
        (["account", "show", "nobody"], 1, "NotFoundError", "nobody"),
        (["account", "list", "--jsn"], 2, "BadRequestError", "No such option '--jsn'"),
        (["account", "apply", "x.toml"], 2, "BadRequestError", "--json cannot ask"),
        (["audit", "list", "--by", "M\udcfcller"], 2, "BadRequestError", "not valid UTF-8"),
    ],
)
def test_with_json_an_error_is_one_json_object(crmhub, command, code, category, words):
    failed = crmhub(*command, "--json", code=code)
    assert failed.stdout == ""
    error = json.loads(failed.stderr)
    assert list(error) == ["category", "message", "timestamp", "status"]
    assert (error["category"], error["status"]) == (category, "error")
    assert words in error["message"]


def test_with_json_faulty_settings_are_one_json_object(crmhub):
    crmhub.env.update(CRMHUB_PORT="eighty", CRMHUB_DATABASE_URL="mysql://u:hunter2@h/d")
    error = json.loads(crmhub("account", "list", "--json", code=2).stderr)
    assert error["category"] == "InternalError"
    assert error["message"].count("\n") == 1
    assert "hunter2" not in error["message"]
