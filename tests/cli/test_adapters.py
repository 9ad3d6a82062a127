"""crmhub adapter new: a package that works from the start; crmhub adapters NAME."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest
import rich_click as click

from benchmarks.places import free_port
from crmhub.cli.adapters import write_package
from tests.cli.conftest import CommandLine, environment
from tests.depth import thorough
from tests.processes import FORKED

ROOT = Path(__file__).parents[2]
SOME = "lead or mark or created"
"""Enough to see that the package works; all of them run in tests/adapter/test_skeleton.py."""


@pytest.fixture
def crmhub(tmp_path: Path) -> CommandLine:
    """The command line alone: none of this looks at a database."""
    return CommandLine(tmp_path, {})


def _files(directory: Path) -> dict[str, str]:
    found = (path for path in directory.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {str(path.relative_to(directory)): path.read_text() for path in found}


# The new package.


@pytest.mark.parametrize(
    ("name", "module", "word"),
    [("contoso", "contoso", "Contoso"), ("my-crm_2", "my_crm_2", "MyCrm2")],
)
def test_a_new_adapter_bears_its_name_everywhere(
    crmhub: CommandLine, name: str, module: str, word: str
) -> None:
    crmhub("adapter", "new", name)
    written = _files(crmhub.root / f"crmhub-{name}")
    assert set(written) == {
        "README.md",
        "pyproject.toml",
        f"crmhub_{module}.py",
        f"tests/fake_{module}.py",
        f"tests/test_{module}.py",
    }
    assert f'{name} = "crmhub_{module}:{word}Adapter"' in written["pyproject.toml"]
    assert f"class {word}Adapter(RestAdapter)" in written[f"crmhub_{module}.py"]
    assert "acme" not in str(written).lower()


@thorough
def test_a_new_adapter_passes_its_tests_at_once(tmp_path: Path) -> None:
    write_package("contoso", tmp_path, taken=[])
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-k", SOME]
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout[-3000:]
    assert "xfailed" not in ran.stdout


def test_the_steps_that_it_tells_can_be_pasted(crmhub: CommandLine) -> None:
    told = crmhub("adapter", "new", "contoso", "--to", "my crm").stdout
    assert "cd 'my crm'\n" in told


def test_a_new_adapter_is_written_into_an_empty_directory(crmhub: CommandLine) -> None:
    (crmhub.root / "here").mkdir()
    told = crmhub("adapter", "new", "contoso", "--to", "here").stdout
    assert "cd here\npip install -e '.[testing]'\npytest\n" in told
    assert (crmhub.root / "here" / "crmhub_contoso.py").exists()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Contoso", "use lower-case letters"),
        ("2crm", "a letter first"),
        ("my--crm", "words joined by - or _"),
        ("crm-", "words joined by - or _"),
        ("../crm", "use lower-case letters"),
        ("größe", "use lower-case letters"),
        ("c" * 31, "30 characters at most"),
        ("class", "a word of Python's own"),
        ("local", "'local' is installed already"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused_and_nothing_written(
    crmhub: CommandLine, name: str, words: str
) -> None:
    assert words in crmhub("adapter", "new", name, "--to", "new", code=2).stderr
    assert not (crmhub.root / "new").exists()


def test_a_name_that_differs_from_an_installed_one_by_a_hyphen_is_refused(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="'my_crm' is installed"):
        write_package("my-crm", tmp_path, taken=["my_crm"])
    assert not _files(tmp_path)


@pytest.mark.parametrize(
    ("directory", "words"),
    [
        ("full", "full is not empty"),
        ("full/file", "full/file is not empty"),
        ("none/new", "none/new cannot be written: No such file or directory"),
        ("full/file/new", "cannot be written: Not a directory"),
    ],
)
def test_a_directory_that_cannot_be_used_is_refused_and_left_as_it_is(
    crmhub: CommandLine, directory: str, words: str
) -> None:
    (crmhub.root / "full").mkdir()
    (crmhub.root / "full" / "file").write_text("mine")
    assert words in crmhub("adapter", "new", "contoso", "--to", directory, code=2).stderr
    assert _files(crmhub.root) == {"full/file": "mine"}


@pytest.mark.parametrize("empty", [True, False], ids=["an empty directory", "a new one"])
def test_what_cannot_be_written_whole_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty: bool
) -> None:
    directory = tmp_path / "new"
    if empty:
        directory.mkdir()
    real = Path.write_text

    def full(self: Path, text: str, encoding: str | None = None) -> int:
        if self.name.startswith("fake_"):
            raise OSError(28, "No space left on device")
        return real(self, text, encoding)

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(click.UsageError, match="No space left"):
        write_package("contoso", directory, taken=[])
    assert [*tmp_path.rglob("*")] == ([directory] if empty else [])


@thorough
def test_the_wheel_holds_all_that_it_is_written_from(tmp_path: Path) -> None:
    options = ("--no-deps", "--no-index", "--no-build-isolation", "--quiet")
    build = [sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(tmp_path), "."]
    subprocess.run(build, cwd=ROOT, check=True)
    write_package("acme", tmp_path / "new", taken=[])
    with ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        for path, text in _files(tmp_path / "new").items():
            assert wheel.read(f"crmhub/adapter/skeleton/{path}").decode() == text


# What is installed.


def test_an_adapter_is_shown_with_its_settings(crmhub: CommandLine) -> None:
    shown = crmhub("adapters", "hubspot").stdout
    assert "crmhub 0." in shown
    table, _, helps = shown.partition("\n\napi_version ")
    [line] = [one for one in table.splitlines() if one.startswith("access_token")]
    assert "--secret" in line
    assert re.search(r"\naccess_token +From a HubSpot service key", helps)
    assert "access_grant" not in shown, "nobody is asked for what the adapter keeps itself"
    assert "It has no settings." in crmhub("adapters", "local").stdout


def test_an_adapter_is_described_for_programs(crmhub: CommandLine) -> None:
    listed = {one["name"]: one for one in crmhub.json("adapters")}
    assert crmhub.json("adapters", "hubspot") == listed["hubspot"]
    assert listed["hubspot"]["distribution"] == "crmhub"
    settings = {one["name"]: one for one in listed["hubspot"]["settings"]}
    assert settings["access_token"]["secret"] is True
    assert settings["base_url"]["default"] == "https://api.hubapi.com"
    assert "kept" not in settings["base_url"]


def test_an_adapter_that_is_not_installed_is_told_with_those_that_are(crmhub: CommandLine) -> None:
    told = crmhub("adapters", "nocrm", code=1).stderr
    assert "'nocrm' is installed; installed are: hubspot, local" in told


def test_a_crm_that_cannot_be_reached_is_told_in_one_line(crmhub: CommandLine) -> None:
    """In a process of its own, where nobody has taken the lines of the log away."""
    url = f"http://127.0.0.1:{free_port()}"
    crmhub("account", "create", "Acme")
    chosen = ("account", "adapter", "acme", "hubspot", "--set", f"base_url={url}")
    crmhub(*chosen, "--secret", "access_token=-", stdin="a token")
    checked = FORKED.run("account", "check", "acme", cwd=crmhub.root, env=environment())
    assert checked.returncode == 1
    [line] = checked.stderr.splitlines()
    assert line.startswith(f"crmhub: hubspot: Couldn't connect to {url}.")
