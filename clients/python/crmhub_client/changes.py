"""Bookmarks: how far a program has read the changes of a kind of record."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from crmhub_client.results import Record
from crmhub_client.values import time_text

Place = tuple[int, str]
"""The id of a record, and the time of its change as the hub wrote it."""


class _Progress:
    """All changes before `since` ("" at first) have been handled, and those in `seen`.

    Times are texts as the hub writes them, which sort like the times.
    """

    def __init__(self, since: str, seen: Mapping[str, str]) -> None:
        self.since = since
        self._seen = {int(id): at for id, at in seen.items()}

    def new(self, records: Iterable[Record], places: Iterable[Place]) -> list[Record]:
        """Return the records whose change has not been handled."""
        return [
            record
            for record, (id, at) in zip(records, places, strict=True)
            if at >= self.since and self._seen.get(id) != at
        ]

    def add(self, places: Iterable[Place], until: str) -> None:
        """Changes before `until` are complete."""
        self.since = max(self.since, until)
        known = {**self._seen, **dict(places)}
        self._seen = {id: at for id, at in known.items() if at >= self.since}

    def state(self) -> dict[str, Any]:
        return {"since": self.since, "seen": self._seen}


class Bookmark:
    """How far a program has read the changes of one kind of record of one account.

    `text` is the `text` of an earlier bookmark, to go on there; "" for all records. `since`: begin
    with the changes of this time. The bookmark moves when all records of a page have been handled:
    with the next one that is asked for.
    """

    def __init__(self, text: str = "", *, since: datetime | None = None) -> None:
        first = "" if since is None else time_text(since)
        stored: dict[str, Any] = json.loads(text) if text else {}
        if stored.get("form", 1) != 1:
            raise ValueError("the bookmark is of a newer version of crmhub_client")
        empty = {"since": first, "seen": {}}
        self._of: str = stored.get("of", "")
        self.changed = _Progress(**stored.get("changed", empty))
        self.archived = _Progress(**stored.get("archived", empty))

    @property
    def text(self) -> str:
        """To be stored, and given to `Bookmark` later."""
        changed, archived = self.changed.state(), self.archived.state()
        state = {"form": 1, "of": self._of, "changed": changed, "archived": archived}
        return json.dumps(state, separators=(",", ":"))

    def open(self, of: str) -> None:
        """Raises ValueError for a bookmark of another account or kind of record."""
        if self._of not in ("", of):
            raise ValueError(f"the bookmark is of {self._of}, not of {of}")
        self._of = of

    def save(self) -> None:
        """Called after each move."""


class FileBookmark(Bookmark):
    """A bookmark in a file, which is made when it does not exist, and written at each move."""

    def __init__(self, path: str | os.PathLike[str], *, since: datetime | None = None) -> None:
        self._path = Path(path)
        text = self._path.read_text("utf-8") if self._path.exists() else ""
        super().__init__(text, since=since)

    def save(self) -> None:
        """Replace the file: whoever reads it finds the former or the new text, whole."""
        new = self._path.with_name(f"{self._path.name}.new")
        with new.open("w", encoding="utf-8") as file:
            file.write(self.text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)


def clock(headers: Mapping[str, str], overlap: float) -> tuple[str, str]:
    """Return the latest time at which the answer was made, and a time `overlap` seconds before it.

    The former is by the hub's clock, the latter by the earlier one of its and this machine's: too
    early a time can only lead to repetitions.
    """
    now = hub = datetime.now(UTC)
    with suppress(LookupError, ValueError, TypeError):
        hub = parsedate_to_datetime(headers["Date"]).astimezone(UTC)
    # A Date is cut to the second.
    latest = hub + timedelta(seconds=1)
    return time_text(latest), time_text(min(now, hub) - timedelta(seconds=overlap))
