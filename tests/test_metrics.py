"""The files in which processes count together: their size, their bounds, and a full disk."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from crmhub import metrics
from tests.scrapes import Scrape

LONG = "x" * 40


def counted(directory: Path, lines: str) -> subprocess.CompletedProcess[str]:
    """Run lines in a process that counts in this directory; return what it printed."""
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(lines)],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(directory)},
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    assert run.returncode == 0, run.stderr
    return run


def tell(directory: Path, lines: str = "") -> Scrape:
    return Scrape(
        counted(
            directory, f"from crmhub import metrics\n{lines}\nprint(metrics.text().decode())"
        ).stdout
    )


def test_who_follows_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    for total in range(1, 4):
        found = tell(
            tmp_path, "metrics.accepted('createLead')\nmetrics.attempted('local', 'ok', 1)"
        )
        assert found.of("actions_accepted_total", helper="createLead") == total
        assert found.of("attempt_duration_seconds_count", outcome="ok") == total
        assert found.of("attempt_duration_seconds_bucket", le="+Inf") == total
        assert found.of("attempt_duration_seconds_sum") == total
    assert {file.name for file in tmp_path.iterdir()} == {
        "0.lock",
        "counter_0.db",
        "histogram_0.db",
    }


def test_what_cannot_be_counted_for_want_of_descriptors_does_not_fail(tmp_path: Path) -> None:
    found = tell(
        tmp_path,
        """
metrics.start()
import resource
most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (0, most[1]))
metrics.accepted('createLead')
metrics.attempted('local', 'ok', 1)
resource.setrlimit(resource.RLIMIT_NOFILE, most)
metrics.accepted('createLead')
""",
    )
    assert found.of("actions_accepted_total", helper="createLead") == 1


def test_what_killed_services_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    hour_ago = time.time() - 3600
    for name in ("crmhub-metrics-left", "crmhub-metrics-running", "another"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "counter_0.db").touch()
        os.utime(tmp_path / name, (hour_ago, hour_ago))
    (tmp_path / "crmhub-metrics-young").mkdir()
    (tmp_path / "crmhub-metrics-link").symlink_to(tmp_path / "another")
    running = os.open(tmp_path / "crmhub-metrics-running", os.O_RDONLY)
    fcntl.flock(running, fcntl.LOCK_SH)
    with metrics.shared():
        assert len(list(tmp_path.iterdir())) == 5
    os.close(running)
    assert {one.name for one in tmp_path.iterdir()} == {
        "another",
        "crmhub-metrics-link",
        "crmhub-metrics-running",
        "crmhub-metrics-young",
    }
    assert (tmp_path / "another" / "counter_0.db").exists()


def test_whatever_labels_there_are_they_find_room(tmp_path: Path) -> None:
    """What the files would need beyond it could be missing on the disk, which kills a process."""
    lines = f"""
        from crmhub import metrics
        for i in range(3000):
            name = "{LONG}" + str(i)
            metrics.accepted(name)
            metrics.ended(name, "done")
            metrics.helper_answered(name, "200")
            metrics.answered(name, 0.1, resource="contacts", status="2xx")
            metrics.attempted("{LONG}", name, 0.1)
        """
    counted(tmp_path, "from crmhub import metrics\nmetrics.start()")
    before = {file.name: file.stat().st_size for file in tmp_path.glob("*.db")}
    assert sum(file.stat().st_blocks * 512 for file in tmp_path.glob("*.db")) >= sum(
        before.values()
    )
    counted(tmp_path, lines)
    for file in tmp_path.glob("*.db"):
        (used,) = struct.unpack("i", file.read_bytes()[:4])
        assert 0.5 * before[file.name] < used <= file.stat().st_size == before[file.name]
    found = tell(tmp_path)
    assert found.of("actions_accepted_total") == 3000
    assert found.of("actions_accepted_total", helper="other") == 2000
    assert found.of("http_request_duration_seconds_count") == 3000


def test_a_process_works_on_when_its_files_find_no_room(tmp_path: Path) -> None:
    tell(tmp_path, "metrics.accepted('createLead')")
    limited = """
        import resource
        from crmhub import metrics
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        metrics.accepted("createLead")
        print(metrics.text().decode())
        """
    (tmp_path / "counter_0.db").rename(tmp_path / "counter_7.db")
    run = counted(tmp_path, limited)
    assert Scrape(run.stdout).of("actions_accepted_total") == 1
    assert "/metrics leaves out this process" in run.stderr
