"""Write several contacts in two requests: one for all updates, one for all creates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeVar

from crmhub.adapter.errors import AdapterError, Conflict, NotFound, Rejected
from crmhub.adapter.values import ContactWrite, Saved

T = TypeVar("T")

Action = Literal["update", "create"]
Results = dict[int, Saved | AdapterError]
"""The results of the writes of a batch, by the index of the write."""


def write_batches(
    writes: Sequence[ContactWrite],
    *,
    fit: Callable[[Mapping[str, str]], dict[str, str]],
    send: Callable[[Action, Mapping[int, ContactWrite], Results], None],
) -> list[Saved | AdapterError | None]:
    """Make all updates, then all creates; return what `Adapter.write_contacts` returns.

    `fit` may raise Rejected for one contact. `send(action, items, results)` adds results by index;
    an item without one is sent alone later, also after an error about values or records. Another
    error is the result of all items without one.
    """
    results: Results = {}
    batches: dict[Action, dict[int, ContactWrite]] = {"update": {}, "create": {}}
    for index, write in enumerate(writes):
        try:
            fitted = replace(write, properties=fit(write.properties))
        except AdapterError as exc:
            results[index] = exc
        else:
            batches["update" if write.contact_id else "create"][index] = fitted
    for action, items in batches.items():
        try:
            if items:
                send(action, items, results)
        except (Conflict, NotFound, Rejected):
            continue
        except AdapterError as exc:
            for index in items:
                results.setdefault(index, exc)
    return [results.get(index) for index in range(len(writes))]


def groups_that_fit(
    items: Sequence[T], fits: Callable[[Sequence[T]], bool]
) -> Iterator[Sequence[T]]:
    """Split `items` into groups, in order and as large as `fits` allows, but of one at least."""
    start = 0
    for end in range(1, len(items) + 1):
        if end - start > 1 and not fits(items[start:end]):
            yield items[start : end - 1]
            start = end - 1
    if items:
        yield items[start:]
