"""The collected tests are set aside, and garbage is still collected."""

from __future__ import annotations

import gc


def test_garbage_is_collected_while_tests_run() -> None:
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0
