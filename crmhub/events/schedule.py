"""Time limits of deliveries: retry delays, leases, and when a subscription pauses or ends."""

from __future__ import annotations

_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000

DELAYS_S = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 43_200, 72_000, 86_400)
"""Seconds until the next attempt, after the first, second, … failed attempt: 72 h together."""
ALERT_DELAYS_S = (5, 30, 120, 600, 3_600, 10_800, 21_600, 43_200)
"""The same for alerts to the operator: a day together."""
LONGEST_MS = 87 * _HOUR_MS
"""The time after which an event is given up, however few attempts there were: 72 h and jitter."""
CALL_S = 10.0
LEASE_MS = 30_000
"""The length of a lease: a call and the writes around it."""
SKEW_MS = 5_000
"""By how much the clocks of two machines may differ."""
SWITCH_OFF_MS = 5 * _DAY_MS
"""After this time of nothing but failures a subscription is switched off."""

FAILURES_TO_PAUSE = 5
"""After so many failures in a row, one call at a time finds out whether the address works again."""
