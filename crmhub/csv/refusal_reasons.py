from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_MAX_REASONS = 50
_MAX_LINES = 5
_VALUES = re.compile(r'"[^"]*"|\'[^\']*\'|[0-9]+')


class RefusalReasons:
    """Reasons that differ only in quoted values and numbers count as one, the first of them."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._lines: dict[str, list[int]] = {}
        self._by_form: dict[str, str] = {}

    def add(self, line: int, reason: str) -> None:
        form = _VALUES.sub("…", reason)
        if form not in self._by_form and len(self.counts) == _MAX_REASONS:
            return
        reason = self._by_form.setdefault(form, reason)
        self.counts[reason] = self.counts.get(reason, 0) + 1
        lines = self._lines.setdefault(reason, [])
        if len(lines) < _MAX_LINES:
            lines.append(line)

    def most_common(self) -> dict[str, int]:
        return dict(sorted(self.counts.items(), key=lambda item: -item[1]))

    def describe(self, most: int) -> list[str]:
        return [
            f"{count:,} × {reason} ({self._shown_lines(reason)})"
            for reason, count in list(self.most_common().items())[:most]
        ]

    def _shown_lines(self, reason: str) -> str:
        lines = self._lines[reason]
        shown = ", ".join(f"{line:,}" for line in lines)
        return f"line{'s' * (len(lines) > 1)} {shown}" + ", …" * (self.counts[reason] > len(lines))

    def to_json(self) -> dict[str, Any]:
        return {reason: [count, self._lines[reason]] for reason, count in self.counts.items()}

    def load(self, saved: Mapping[str, Any]) -> None:
        for reason, (count, lines) in saved.items():
            self.counts[reason], self._lines[reason] = count, list(lines)
            self._by_form[_VALUES.sub("…", reason)] = reason
