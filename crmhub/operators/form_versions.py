"""Versions of what a form shows, so that an older form does not overwrite a newer state."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from crmhub.errors import ChangedMeanwhile


def version_of(state: Any) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()


def require_version(version: str | None, expected: str | None, subject_was: str) -> None:
    """Raise ChangedMeanwhile unless the version is the `expected` one; None expects any."""
    if expected is not None and expected != version:
        raise ChangedMeanwhile(
            "%(subject)s changed by somebody else meanwhile, and nothing was saved."
            " Check the present values, and save again.",
            subject=subject_was,
        )
