"""Image, compose file and systemd unit follow from what crmhub really has."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

from crmhub import __version__
from crmhub.api.http.document import PATHS
from crmhub.cli import main
from crmhub.server import http_server, worker_process
from crmhub.settings import Settings, _parsers

_ROOT = Path(__file__).parents[1]
_FILES = ("Dockerfile", "compose.yaml", "config/systemd/crmhub.service")
_UNIT = _ROOT / "config" / "systemd" / "crmhub.service"
_PORT = _UNIT.with_name("crmhub@.service.d") / "port.conf"


def _text(name: str) -> str:
    return (_ROOT / name).read_text(encoding="utf-8")


def _commands() -> list[str]:
    unit = re.findall(r"^Exec\w+=\S+/crmhub (.+)$", _UNIT.read_text(encoding="utf-8"), re.M)
    composed = re.findall(r"^    command: (.+)$", _text("compose.yaml"), re.M)
    composed = [each for each in composed if not each.startswith("redis-server")]
    image = re.findall(r'^CMD \["(.+)"\]$', _text("Dockerfile"), re.M)
    return [*unit, *composed, *image]


@pytest.mark.databases("sqlite")
def test_one_version_is_told_everywhere(app):
    wheel = ProjectMetadata(str(_ROOT), PluginManager()).version
    [command] = CliRunner().invoke(main, ["--version"]).output.split()[-1:]
    documents = [app.test_client().get(path).json["info"]["version"] for path in PATHS.values()]
    image = re.findall(r"crmhub:([\w.]+)|image\.version=(\S+)", _text("Dockerfile"))
    composed = re.findall(r"image: crmhub:(\S+)", _text("compose.yaml"))
    [_, released, *_] = re.findall(r"^## (\S+)", _text("CHANGELOG.md"), re.M)
    told = [wheel, command, *documents, *("".join(each) for each in image), *composed, released]
    assert told == [__version__] * 9


def test_every_command_is_one():
    commands = _commands()
    assert len(commands) == 6
    for command in commands:
        result = CliRunner().invoke(main, [*shlex.split(command), "--help"])
        assert result.exit_code == 0, f"{command}: {result.output}"


@pytest.mark.parametrize("name", _FILES)
def test_every_setting_is_one(name):
    named = set(re.findall(r"\bCRMHUB_([A-Z_]+)\b", _text(name)))
    assert named <= {each.upper() for each in _parsers()}
    assert named


def test_the_image_gets_what_it_copies_and_builds_what_make_run_builds():
    taken = re.findall(r"^COPY (?!--from)(.+) \S+$", _text("Dockerfile"), re.M)
    sources = {source for line in taken for source in line.split()}
    let_in = set(re.findall(r"^!(.+)$", _text(".dockerignore"), re.M))
    assert sources == let_in
    assert all((_ROOT / source).exists() for source in sources)
    assert "RUN make install\n" in _text("Dockerfile")
    assert "\ninstall: $(RUN_READY)" in _text("Makefile")
    assert "\nrun: $(RUN_READY)" in _text("Makefile")


def test_whoever_stops_it_waits_for_what_is_under_way():
    # The package names the command `serve` as its module is named.
    serve = import_module("crmhub.cli.serve")
    longest = max(http_server.GRACE_SECONDS + serve._LATE_SECONDS, worker_process._STOP_SECONDS)
    [composed] = re.findall(r"stop_grace_period: (\d+)s", _text("compose.yaml"))
    [unit] = re.findall(r"TimeoutStopSec=(\d+)", _UNIT.read_text(encoding="utf-8"))
    assert int(composed) > longest
    assert int(unit) > longest


def test_logs_of_containers_do_not_grow_for_ever():
    assert re.search(r"^  logging:\n    driver: local$", _text("compose.yaml"), re.M)


def test_a_migration_may_take_as_long_as_it_takes():
    assert "\nTimeoutStartSec=infinity\n" in _UNIT.read_text(encoding="utf-8")


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not here")
def test_systemd_takes_the_units(tmp_path):
    text = _UNIT.read_text().replace("/opt/crmhub/.venv/bin/crmhub", "/bin/true")
    copies = [tmp_path / "crmhub.service", tmp_path / "crmhub@.service"]
    copies[0].write_text(text)
    copies[1].write_text(text)
    port = tmp_path / "crmhub@.service.d" / _PORT.name
    port.parent.mkdir()
    port.write_text(_PORT.read_text())
    instance = tmp_path / "crmhub@8081.service"
    verified = subprocess.run(
        ["systemd-analyze", "verify", copies[0], instance],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in verified.stderr.splitlines() if "crmhub" in line]
    assert ours == []


def test_each_instance_of_the_unit_listens_on_the_port_it_is_named_after():
    named = _PORT.read_text(encoding="utf-8").replace("%i", "8081")
    settings = dict(re.findall(r"^Environment=(\w+)=(.+)$", named, re.M))
    assert Settings.load(environ=settings, root=_ROOT).port == 8081
