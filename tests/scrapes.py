"""What /metrics told, as tests look at it."""

from __future__ import annotations

from collections import Counter

import flask
from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Scrape:
    """The samples of one answer, which must be in Prometheus' text format."""

    def __init__(self, text: str) -> None:
        self.text = text
        families = list(text_string_to_metric_families(text))
        twice = [name for name, n in Counter(one.name for one in families).items() if n > 1]
        assert twice == []
        assert all(one.documentation for one in families)
        self.samples: Samples = {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for one in families
            for sample in one.samples
        }

    def of(self, name: str, **labels: str) -> float:
        """Return the sum of the samples of `crmhub_{name}` that have these labels."""
        wanted = set(labels.items())
        return sum(
            value
            for (found, has), value in self.samples.items()
            if found == f"crmhub_{name}" and wanted <= has
        )

    def names(self) -> set[str]:
        """Return the samples' names without their prefix."""
        return {name.removeprefix("crmhub_") for name, _ in self.samples}

    def labels(self) -> set[tuple[str, str]]:
        """Return every label with every value it has."""
        return {label for _, labels in self.samples for label in labels}


def scraped(app: flask.Flask) -> Scrape:
    """Ask the app for its metrics, and hold the answer against their format."""
    return Scrape(_asked(app))


def counted(app: flask.Flask, name: str, **labels: str) -> float:
    """Ask the app for its metrics, and return the sum of the samples that have these labels.

    No other is read: late in a run of many tests there are thousands.
    """
    wanted = (f"crmhub_{name}{{", f"crmhub_{name} ")
    lines = [line for line in _asked(app).splitlines(True) if line.startswith(wanted)]
    return sum(
        sample.value
        for family in text_string_to_metric_families("".join(lines))
        for sample in family.samples
        if sample.labels.items() >= labels.items()
    )


def _asked(app: flask.Flask) -> str:
    answer = app.test_client().get("/metrics")
    assert answer.status_code == 200
    assert answer.content_type == "text/plain; version=0.0.4; charset=utf-8"
    return answer.text
