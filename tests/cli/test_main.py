"""crmhub itself: quick help, one line for each fault, never a traceback."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from crmhub import __version__
from tests.cli.conftest import CRMHUB, environment


def run(root, *args, **settings):
    return subprocess.run(
        [*CRMHUB, *args],
        cwd=root,
        env=environment(**settings),
        capture_output=True,
        text=True,
    )


def test_help_comes_at_once(tmp_path):
    told = run(tmp_path, "--help")
    for command in ("account", "adapters", "db", "demo", "doctor", "key", "serve", "workflow"):
        assert command in told.stdout
    # A fifth, as a rule, of what it takes to load the service.
    whole = [sys.executable, "-c", "import crmhub.app"]
    assert min(processor_s(*CRMHUB, "--help") for _ in range(3)) < processor_s(*whole) / 2


def processor_s(*command):
    """Return how long the processor works for a command; other tests run beside this one."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, env=environment(), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_help_needs_no_installation(tmp_path):
    run(tmp_path, "account", "adapter", "--help", database_url="nonsense")
    assert list(tmp_path.iterdir()) == []


def test_help_loads_nothing_heavy(tmp_path):
    code = (
        "import sys\n"
        "from crmhub.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        "heavy = {'sqlalchemy', 'flask', 'cryptography', 'granian', 'redis', 'limits', 'alembic'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or None)"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert (told.returncode, told.stderr) == (0, "")


def test_the_version_is_told(tmp_path):
    assert __version__ in run(tmp_path, "--version").stdout


def test_without_a_command_it_helps(tmp_path):
    told = run(tmp_path)
    assert told.returncode == 2
    assert "Usage: crmhub" in told.stdout


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
def test_misuse_is_told_in_one_line(tmp_path, args, words):
    told = run(tmp_path, *args)
    assert told.returncode == 2
    assert words in told.stderr
    assert told.stderr.startswith("crmhub: ")
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command", [["account", "list"], ["serve"], ["demo"], ["db", "upgrade"], ["doctor"]]
)
def test_faulty_settings_are_named_one_a_line(tmp_path, command):
    told = run(tmp_path, *command, port="eighty", database_url="mysql://u:hunter2@h/d")
    lines = (told.stdout if command == ["doctor"] else told.stderr).splitlines()
    assert len(lines) == 2
    assert any("CRMHUB_PORT" in line for line in lines)
    assert any("CRMHUB_DATABASE_URL" in line for line in lines)
    assert "hunter2" not in told.stdout + told.stderr
    assert told.returncode == (1 if command == ["doctor"] else 2)


@pytest.mark.parametrize(
    "command",
    [["account", "list"], ["serve"], ["demo"], ["key", "list", "x"], ["db", "upgrade"]],
)
def test_a_database_that_is_away_is_told_in_one_line(tmp_path, command):
    told = run(tmp_path, *command, database_url="postgresql://u:hunter2@127.0.0.1:1/none")
    assert told.returncode == 1
    assert told.stderr.startswith("crmhub: The database c")
    assert told.stderr.count("\n") == 1
    assert "hunter2" not in told.stderr


@pytest.mark.parametrize("command", [["account", "list"], ["serve"], ["db", "upgrade"]])
def test_a_file_that_is_no_database_is_told_in_one_line(tmp_path, command):
    (tmp_path / "no.db").write_text("This is not a database, whatever its name says. " * 100)
    told = run(tmp_path, *command, database_url="sqlite:///no.db")
    assert told.returncode == 1
    assert "not a database" in told.stderr
    assert told.stderr.count("\n") == 1


def test_a_faulty_file_of_plans_is_told_before_anything_starts(tmp_path):
    (tmp_path / "plans.toml").write_text('[gold]\nrate_limit = "fast"\n')
    told = run(tmp_path, "serve", plans="plans.toml")
    assert told.returncode == 2
    assert "[gold] rate_limit: 'fast' is not a rate" in told.stderr
    assert told.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "command", [["account", "list"], ["export", "acme", "contacts", "-"], ["--help"]]
)
def test_output_that_cannot_be_written_is_told_in_one_line(tmp_path, command):
    run(tmp_path, "account", "create", "Acme")
    with open("/dev/full", "w") as full:
        told = subprocess.run(
            [*CRMHUB, *command],
            cwd=tmp_path,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert told.returncode == 1
    assert told.stderr == "crmhub: The output cannot be written: No space left on device.\n"


def test_a_command_works_without_standard_streams(tmp_path):
    run(tmp_path, "account", "create", "Acme")
    closed = 'exec "$@" 0<&- >&- 2>&-'
    export = [*CRMHUB, "export", "acme", "contacts", "out.csv"]
    subprocess.run(["sh", "-c", closed, "sh", *export], cwd=tmp_path, env=environment(), check=True)
    assert (tmp_path / "out.csv").read_text().startswith("id,")


@pytest.mark.parametrize(
    "command",
    [["export", "acme", "contacts", "{}"], ["import", "acme", "contacts", "p", "--refused", "{}"]],
)
def test_a_path_that_cannot_be_looked_at_is_told_in_one_line(tmp_path, command):
    run(tmp_path, "account", "create", "Acme")
    (tmp_path / "p").write_text("email\n")
    # Too long for anybody, also for root, whom no mode of a directory stops.
    path = "d" * 300 + "/people.csv"
    told = run(tmp_path, *(word.format(path) for word in command))
    assert told.returncode == 1
    assert told.stderr == f"crmhub: {path}: File name too long.\n"


@pytest.mark.parametrize(
    "command",
    [["actions", "list", "--reason"], ["key", "revoke", "acme"], ["audit", "list", "--by"]],
)
def test_arguments_in_another_encoding_are_told_in_one_line(tmp_path, command):
    run(tmp_path, "account", "create", "Acme")
    told = run(tmp_path, *command, "M\udcfcller")
    assert told.returncode == 2
    assert told.stderr == "crmhub: An argument is not valid UTF-8. Set the terminal to UTF-8.\n"
