"""A database and the secrets of development belong together, in whatever folder."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from crmhub.settings import Settings
from tests.cli.conftest import CommandLine, environment
from tests.processes import FORKED

SECRETS = ("secret_key", "encryption_keys")
NEW = "k2:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
SAME_ID = NEW.replace("k2", "k1")


def elsewhere(tmp_path: Path, own_url: str) -> CommandLine:
    """Return the command line in another folder, with the same database."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    return CommandLine(folder, {"CRMHUB_DATABASE_URL": own_url})


def test_a_command_in_another_folder_seals_nothing_with_a_key_of_its_own(
    crmhub: CommandLine, own_url: str, tmp_path: Path
) -> None:
    crmhub("account", "create", "acme")
    there = elsewhere(tmp_path, own_url)
    secret = tmp_path / "token"
    secret.write_text("pat-1")
    connect = ("account", "adapter", "acme", "hubspot", "--secret", f"access_token=@{secret}")
    refused = there(*connect, code=2)
    for name in SECRETS:
        assert str(there.root / "var" / name) in refused.stderr
        assert f"CRMHUB_{name.upper()}" in refused.stderr
    assert str(tmp_path) in refused.stderr
    assert crmhub.json("account", "show", "acme")["adapter"] == "local"
    for name in SECRETS:
        (there.root / "var" / name).write_text((tmp_path / "var" / name).read_text())
    there(*connect)
    finding = next(
        one for one in crmhub.json("doctor", code=0)["checks"] if one["name"] == "encryption keys"
    )
    assert (finding["state"], finding["message"]) == ("ok", "1 sealed value, all with k1")


def test_a_service_in_another_folder_does_not_start(
    crmhub: CommandLine, own_url: str, tmp_path: Path
) -> None:
    crmhub("account", "list")
    there = elsewhere(tmp_path, own_url)
    for command in (("serve", "--port", "1"), ("worker",)):
        assert "encryption_keys" in there(*command, code=2).stderr


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
    there = elsewhere(tmp_path, own_url)
    found = there.json("doctor", code=1)["checks"]
    finding = next(one for one in found if one["name"] == "encryption keys")
    assert finding["state"] == "fail"
    assert str(there.root) in finding["message"]


@pytest.mark.databases("sqlite")
def test_a_command_says_where_it_makes_a_new_database(tmp_path: Path) -> None:
    terminal, program = os.openpty()
    for told in (True, False):
        with open(program, "w", closefd=False) as stderr:
            FORKED.start("account", "list", cwd=tmp_path, env=environment(), stderr=stderr).wait()
        ready, _, _ = select.select([terminal], [], [], 0)
        said = os.read(terminal, 4096).decode().replace("\r\n", "") if ready else ""
        assert (f"{tmp_path}/var/crmhub.db; a new one is made" in said) == told
    os.close(terminal)
    os.close(program)


def test_the_settings_know_which_secrets_development_made(tmp_path: Path) -> None:
    assert Settings.load({}, tmp_path).made == set(SECRETS)
    assert Settings.load({"CRMHUB_ENCRYPTION_KEYS": NEW}, tmp_path).made == {"secret_key"}
