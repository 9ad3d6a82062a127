"""Time limits of actions: retry delays, lease lengths, windows for repeated calls."""

from __future__ import annotations

# Seconds until the next attempt, after the first, second, … failed attempt.
DELAYS_S = (5, 30, 120, 600, 3_600, 10_800, 21_600, 43_200)
LONGEST_MS = 7 * 86_400_000
LONGEST_LEASE_MS = 60_000
# No retry delay, pause that a CRM asks for, or lease is longer. A due time further ahead was stored
# before the clock was set back.
LONGEST_WAIT_MS = 2 * 86_400_000
IDENTITY_MS = 60_000
KEY_MS = 24 * 3_600_000
# Time that a process needs after the call to store the outcome.
GRACE_MS = 2_000
