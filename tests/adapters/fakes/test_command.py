"""The options and the serving loop of a fake's command."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.metadata import entry_points

import pytest
import requests
from click.testing import CliRunner

from adapters.fakes import command
from crmhub.cli.fake import GROUP
from tests.adapters.fakes.tiny_crm import serve
from tests.cli.conftest import environment

_SERVE = "from tests.adapters.fakes.tiny_crm import serve; serve()"


def test_a_fake_is_served_until_it_is_told_to_stop() -> None:
    options = ["--port", "0", "--limit", "7/2s", "--search-lag", "3", "--rotate"]
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(6)]
        url = lines[0].split()[1]
        state = requests.get(f"{url}/_control/state", timeout=120).json()
        process.send_signal(signal.SIGTERM)
        assert (process.wait(timeout=120), process.stdout.read()) == (0, "")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert (state["searchLag"], state["windows"]["general"]["limit"]) == (3.0, 7)
    assert lines[:2] == [f"Address       {url}\n", "API key       tiny-key\n"]
    assert lines[-1] == (
        "printf %s tiny-key | crmhub account adapter CLIENT_ID tiny"
        f" --set base_url={url}/v1 --secret api_key=-\n"
    )


def test_each_fake_has_a_port_of_its_own() -> None:
    commands = [point.load() for point in entry_points(group=GROUP)]
    ports = [option.default for one in commands for option in one.params if option.name == "port"]
    assert len(ports) == len(set(ports)) == len(commands)


def test_several_secrets_come_from_files() -> None:
    secrets = {"client_secret": "a", "refresh_token": "b"}
    assert command.connecting_line("tiny", {"dc": "eu"}, secrets) == (
        "crmhub account adapter CLIENT_ID tiny --set dc=eu"
        " --secret client_secret=@<(printf %s a) --secret refresh_token=@<(printf %s b)"
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--limit", "100"], "--limit 100: a limit is written as 100/10s, or none"),
        (["--search-lag", "61"], "--search-lag"),
        (["--retry-after", "soon"], "--retry-after"),
    ],
)
def test_a_wrong_option_is_explained(args: list[str], words: str) -> None:
    result = CliRunner().invoke(serve, args)
    assert result.exit_code == 2
    assert words in result.output
