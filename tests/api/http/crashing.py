"""A server process that dies while it answers a call with an Idempotency-Key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from crmhub import idempotency
from crmhub.app import create_app
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings

CRASHED = 9
"""The exit code of the process."""


def create_and_crash(url: str, root: Path, path: str, api_key: str, where: str) -> None:
    """Create a contact, and die `where` the answer is stored: "before" or "after"."""
    app = create_app(
        Settings(
            root=root,
            database_url=url,
            secret_key="x" * 40,
            encryption_keys=(EncryptionKey("k1", b"k" * 32),),
        )
    )
    keep = idempotency._store_answer

    def crash(*args: Any) -> None:
        if where == "after":
            keep(*args)
        os._exit(CRASHED)

    idempotency._store_answer = crash
    headers = {"service-apikey": api_key, "Idempotency-Key": "k"}
    app.test_client().post(path, json={"properties": {"firstname": "Ada"}}, headers=headers)
