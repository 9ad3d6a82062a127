"""The installed adapters, found by the entry-point group `crmhub.adapters`.

A class is imported when an account first needs it, so a broken adapter affects only its accounts.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points

from crmhub.adapter.contract import Adapter, features, has_oauth
from crmhub.adapter.errors import BadConfig
from crmhub.adapter.values import Guide, Linked, Setting

GROUP = "crmhub.adapters"


@dataclass(frozen=True, slots=True)
class Installed:
    """`error`: why it cannot be used, or "". `linked_kinds`: kinds with the setting they need."""

    name: str
    version: str
    distribution: str = ""
    title: str = ""
    features: frozenset[str] = frozenset()
    settings: tuple[Setting, ...] = ()
    error: str = ""
    guides: tuple[Guide, ...] = ()
    has_oauth: bool = False
    linked_kinds: Mapping[Linked, str] = field(default_factory=dict)


class Registry:
    def __init__(self, found: Iterable[EntryPoint] | None = None) -> None:
        self.entry_points = tuple(entry_points(group=GROUP) if found is None else found)
        self._points: dict[str, EntryPoint] = {}
        self._ambiguous: dict[str, list[str]] = {}
        for point in self.entry_points:
            # Two entries of sys.path may show the same distribution, which is no conflict.
            first = self._points.setdefault(point.name, point)
            if first.value != point.value:
                self._ambiguous.setdefault(point.name, [first.value]).append(point.value)
        self._loaded: dict[str, type[Adapter]] = {}
        self._lock = threading.Lock()

    @property
    def names(self) -> list[str]:
        return sorted(self._points)

    def load(self, name: str) -> type[Adapter]:
        """Return the class of an adapter; raises BadConfig if it is unusable or not unique."""
        loaded = self._loaded.get(name)
        if loaded is not None:
            return loaded
        with self._lock:
            self._loaded[name] = loaded = self._import(name)
        return loaded

    def is_remote(self, name: str) -> bool:
        """Return True for an adapter that cannot be loaded; the hub's own always can be."""
        try:
            return self.load(name).remote
        except BadConfig:
            return True

    def title(self, name: str) -> str:
        """Return the CRM's name; the adapter's name if the adapter cannot be loaded."""
        try:
            return self.load(name).title or name
        except BadConfig:
            return name

    def installed(self) -> list[Installed]:
        return [self._describe(name) for name in self.names]

    def _import(self, name: str) -> type[Adapter]:
        point = self._points.get(name)
        if point is None:
            installed = ", ".join(self.names) or "none"
            raise BadConfig(
                f"No adapter named {name!r} is installed; installed are: {installed}. If you"
                " installed it while the service was running, restart the service."
            )
        if name in self._ambiguous:
            raise BadConfig(
                f"Two adapters are named {name!r} ({' and '.join(self._ambiguous[name])});"
                " uninstall one of them."
            )
        try:
            adapter = point.load()
        # Any error in a plugin's import must affect only the accounts that use it.
        except Exception as exc:
            raise BadConfig(
                f"The adapter {name!r} ({point.value}) cannot be loaded:"
                f" {type(exc).__name__}: {exc}"
            ) from exc
        if not (isinstance(adapter, type) and issubclass(adapter, Adapter)):
            raise BadConfig(
                f"The adapter {name!r} ({point.value}) is no subclass of crmhub.adapter.Adapter."
            )
        missing = sorted(getattr(adapter, "__abstractmethods__", ()))
        if not hasattr(adapter, "title"):
            missing.append("title")
        if missing:
            raise BadConfig(f"The adapter {name!r} ({point.value}) lacks {', '.join(missing)}.")
        if not all(isinstance(guide, Guide) for guide in adapter.guides):
            raise BadConfig(f"The adapter {name!r} ({point.value}) has guides that are no Guide.")
        return adapter

    def _describe(self, name: str) -> Installed:
        point = self._points[name]
        dist = point.dist
        version, distribution = ("", "") if dist is None else (dist.version, dist.name)
        try:
            adapter = self.load(name)
        except BadConfig as exc:
            return Installed(name, version, distribution, error=exc.message)
        settings = tuple(setting for setting in adapter.settings if not setting.kept)
        return Installed(
            name,
            version,
            distribution,
            adapter.title,
            features(adapter),
            settings,
            guides=adapter.guides,
            has_oauth=has_oauth(adapter),
            linked_kinds=adapter.linked_kinds,
        )
