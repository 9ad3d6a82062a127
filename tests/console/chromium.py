"""How the system's Chromium is started by the tests and for screenshots."""

from __future__ import annotations

# What its many helpers would look for elsewhere; and it may run as root in a container.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
