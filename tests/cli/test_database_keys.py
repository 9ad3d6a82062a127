"""A database and the secrets of development belong together, in whatever folder."""

from __future__ import annotations

import json
import os
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest

from crmhub.settings import Settings
from tests.cli.conftest import CRMHUB, CommandLine, environment

Json = Any
SECRETS = ("secret_key", "encryption_keys")
NEW = "k2:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
SAME_ID = NEW.replace("k2", "k1")


def run(
    folder: Path, *args: str, stderr: int = subprocess.PIPE, **settings: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own in a folder."""
    folder.mkdir(exist_ok=True)
    command = [*CRMHUB, *args]
    env = environment(**settings)
    out = {"stdout": subprocess.PIPE, "stderr": stderr}
    return subprocess.run(command, cwd=folder, env=env, text=True, check=False, **out)


def test_a_command_in_another_folder_seals_nothing_with_a_key_of_its_own(
    crmhub: CommandLine, own_url: str, tmp_path: Path
) -> None:
    crmhub("account", "create", "acme")
    other = tmp_path / "elsewhere"
    secret = tmp_path / "token"
    secret.write_text("pat-1")
    connect = ("account", "adapter", "acme", "hubspot", "--secret", f"access_token=@{secret}")
    refused = run(other, *connect, database_url=own_url)
    assert refused.returncode != 0
    for name in SECRETS:
        assert str(other / "var" / name) in refused.stderr
        assert f"CRMHUB_{name.upper()}" in refused.stderr
    assert str(tmp_path) in refused.stderr
    assert crmhub.json("account", "show", "acme")["adapter"] == "local"
    for name in SECRETS:
        (other / "var" / name).write_text((tmp_path / "var" / name).read_text())
    done = run(other, *connect, database_url=own_url)
    assert done.returncode == 0, done.stderr
    finding = next(
        one for one in crmhub.json("doctor", code=0)["checks"] if one["name"] == "encryption keys"
    )
    assert (finding["state"], finding["message"]) == ("ok", "1 sealed values, all with k1")


def test_a_service_in_another_folder_does_not_start(
    crmhub: CommandLine, own_url: str, tmp_path: Path
) -> None:
    crmhub("account", "list")
    for command in (("serve", "--port", "1"), ("worker",)):
        refused = run(tmp_path / "elsewhere", *command, database_url=own_url)
        assert refused.returncode != 0
        assert "encryption_keys" in refused.stderr


def test_given_keys_may_change_by_another_id_only(crmhub: CommandLine, tmp_path: Path) -> None:
    crmhub("account", "list")
    made = (tmp_path / "var" / "encryption_keys").read_text().strip()
    crmhub.env["CRMHUB_SECRET_KEY"] = "x" * 64
    for keys, code in ((made, 0), (f"{NEW},{made}", 0), (NEW, 0), (SAME_ID, 1)):
        crmhub.env["CRMHUB_ENCRYPTION_KEYS"] = keys
        result = crmhub("account", "list", code=2 if code else 0)
    assert "k1 is another key" in result.stderr
    crmhub.env["CRMHUB_SECRET_KEY"] = "y" * 64
    crmhub.env["CRMHUB_ENCRYPTION_KEYS"] = made
    crmhub("account", "list")


def test_doctor_tells_keys_of_another_folder(
    crmhub: CommandLine, own_url: str, tmp_path: Path
) -> None:
    crmhub("account", "list")
    found = run(tmp_path / "elsewhere", "doctor", "--json", database_url=own_url)
    finding = next(
        one for one in json.loads(found.stdout)["checks"] if one["name"] == "encryption keys"
    )
    assert finding["state"] == "fail"
    assert str(tmp_path / "elsewhere") in finding["message"]


@pytest.mark.databases("sqlite")
def test_a_command_says_where_it_makes_a_new_database(tmp_path: Path) -> None:
    here = tmp_path / "here"
    terminal, program = os.openpty()
    for told in (True, False):
        run(here, "account", "list", stderr=program)
        ready, _, _ = select.select([terminal], [], [], 0)
        said = os.read(terminal, 4096).decode().replace("\r\n", "") if ready else ""
        assert (f"{here}/var/crmhub.db; a new one is made" in said) == told
    os.close(terminal)
    os.close(program)


def test_the_settings_know_which_secrets_development_made(tmp_path: Path) -> None:
    assert Settings.load({}, tmp_path).made == set(SECRETS)
    assert Settings.load({"CRMHUB_ENCRYPTION_KEYS": NEW}, tmp_path).made == {"secret_key"}
