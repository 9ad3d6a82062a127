"""tools/pip_install.py: progress while packages install, and pip's own words when it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import environment

_SCRIPT = Path(__file__).parents[1] / "tools" / "pip_install.py"


_LOCK = "one==1 \\\n    --hash=x\ntwo==2\nold==1 ; python_version < '3'\n"


def install(tmp_path, fake_pip, **streams):
    """Run the script in an environment where `python -m pip` is the code `fake_pip`."""
    (tmp_path / "lock").write_text(_LOCK)
    (tmp_path / "pip").mkdir()
    (tmp_path / "pip" / "__init__.py").touch()
    (tmp_path / "pip" / "__main__.py").write_text(fake_pip)
    return subprocess.run(
        [sys.executable, _SCRIPT, "the packages", "-r", tmp_path / "lock"],
        env=environment() | {"PYTHONPATH": str(tmp_path)},
        text=True,
        **streams,
    )


_WORKS = """
import sys
print("Ignoring old: markers 'python_version < \\"3\\"' don't match your environment")
print("Collecting one==1 (from -r lock (line 1))")
print("Installing collected packages: one, two", flush=True)
"""


def test_each_step_is_one_line_and_pip_is_quiet(tmp_path):
    done = install(tmp_path, _WORKS, capture_output=True)
    assert (done.returncode, done.stderr) == (0, "")
    first, last = done.stdout.splitlines()
    assert first.startswith("Installing the packages: unpacked 0 of 2, ")
    assert last.startswith("Installed the packages in ")


def test_a_terminal_shows_how_many_packages_there_are(tmp_path):
    ours, theirs = os.openpty()
    install(tmp_path, _WORKS.replace("Installing", "Other"), stdout=theirs)
    os.close(theirs)
    shown = os.read(ours, 10_000).decode()
    os.close(ours)
    assert "\rInstalling the packages: downloaded 1 of 2, " in shown
    assert "\rInstalled the packages in " in shown


def test_pips_errors_are_printed_with_its_exit_code(tmp_path):
    fails = "import sys; print('ERROR: no such host'); sys.exit(3)"
    done = install(tmp_path, fails, capture_output=True)
    assert (done.returncode, done.stdout) == (3, "")
    assert "ERROR: no such host\nInstalling the packages failed (see above)." in done.stderr
