"""What the fakes of CRMs have in common, as the conformance tests see them."""

from __future__ import annotations

from typing import Any, Self

from crmhub.adapter import Kind


class ServedCrm:
    """A fake that is served between `with` and its end; subclasses make it."""

    fake: Any

    def __enter__(self) -> Self:
        self.fake.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.fake.stop()

    @property
    def url(self) -> str:
        url: str = self.fake.url
        return url

    def count(self, kind: Kind) -> int:
        return len(self.fake.records(kind))


class SearchedCrm(ServedCrm):
    """One whose search can be late."""

    @property
    def search_lag(self) -> float:
        lag: float = self.fake.search_lag
        return lag

    @search_lag.setter
    def search_lag(self, seconds: float) -> None:
        self.fake.search_lag = seconds
