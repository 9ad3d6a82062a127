"""Lists in which a contact has several emails or phones; some entries are properties of the hub.

A CRM replaces such a list as a whole, so a new value is written together with all other entries.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from crmhub.adapter.phones import has_number
from crmhub.adapter.tables import Row


@dataclass(frozen=True, slots=True)
class Several:
    """A property that is an entry of a list: the primary entry, or the first one with a label.

    - `path`: the CRM's name of the list.
    - `labelled`: the label of the property's entry; "" for the primary entry.
    - `value`, `primary`, `label`: the CRM's names of an entry's members. Without a `value` (""),
      an entry is a plain text, and the first one is primary.
    - `usual_label`: the label of a new primary entry.
    """

    path: str
    type: Literal["email", "phone"]
    labelled: str = ""
    value: str = "value"
    primary: str = "primary"
    label: str = "label"
    usual_label: str = "work"

    @property
    def adds(self) -> bool:
        """Whether a new value stands beside the former ones; else it replaces the entry."""
        return self.type == "phone" and not self.labelled

    def texts(self, row: Row) -> list[str]:
        """Return all values of the list, whose entries may be texts in a search index."""
        listed = row.get(self.path)
        texts = [
            entry.get(self.value) if isinstance(entry, dict) else entry
            for entry in (listed if isinstance(listed, list) else ())
        ]
        return [text for text in texts if isinstance(text, str) and text]

    def joined(self, row: Row) -> str:
        # Phones may hold a semicolon: +1 202 555 0123;ext=7.
        return (";" if self.type == "email" else "\n").join(self.texts(row))

    def has(self, row: Row, text: str) -> bool:
        return any(self._is_same(text, stored) for stored in self.texts(row))

    def text(self, row: Row) -> str:
        entry = self._chosen(self._entries(row))
        return entry[self.value] if entry else ""

    def written(self, row: Row, text: str) -> list[Any]:
        """Return the list with `text` as the property's entry, or without this entry for "".

        A value that is in the list becomes the property's entry. A new phone becomes primary, and
        any other new value replaces the entry, which it corrects.
        """
        entries = self._entries(row)
        entry = self._chosen(entries)
        if not text:
            entries = [one for one in entries if one is not entry]
        elif same := next((one for one in entries if self._is_same(text, one[self.value])), None):
            entry = same
            entry |= {self.label: self.labelled} if self.labelled else {}
        elif entry and not self.adds:
            entry[self.value] = text
        else:
            label = self.labelled or self.usual_label
            entry = {self.value: text, self.primary: False, self.label: label}
            entries.append(entry)
        if text and not self.labelled:
            for one in entries:
                one[self.primary] = one is entry
        if entries and not any(one.get(self.primary) for one in entries):
            entries[0][self.primary] = True
        if not self.value:
            first = sorted(entries, key=lambda one: not one.get(self.primary))
            return [one[self.value] for one in first]
        return entries

    def _is_same(self, text: str, stored: str) -> bool:
        if self.type == "email":
            return text.lower() == stored.lower()
        return has_number({"": stored}, text, ("",))

    def _entries(self, row: Row) -> list[dict[str, Any]]:
        listed = row.get(self.path)
        entries = listed if isinstance(listed, list) else []
        if not self.value:
            entries = [{self.value: text, self.primary: i == 0} for i, text in enumerate(entries)]
        return [
            dict(entry)
            for entry in entries
            if isinstance(entry, dict)
            and isinstance(entry.get(self.value), str)
            and entry[self.value]
        ]

    def _chosen(self, entries: list[dict[str, Any]]) -> dict[str, Any] | None:
        if self.labelled:
            return next((one for one in entries if one.get(self.label) == self.labelled), None)
        return next((one for one in entries if one.get(self.primary)), next(iter(entries), None))
