"""Conversion of CSV cells to property values.

A cell that cannot be converted is returned unchanged: the validation of the value explains the
fault.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from crmhub.adapter.coercion import Misfit, Options, Unclear
from crmhub.adapter.reading import is_invisible, read_email, read_number, truth_in_any_language
from crmhub.csv.formats import read_date
from crmhub.csv.text_guards import has_lost_digits, is_spreadsheet_error
from crmhub.properties.catalogue import Catalogue
from crmhub.properties.definitions import Property
from crmhub.properties.values import DATE_TYPES, NUMBER_TYPES

# Programs write a column of phones with an empty cell as floating-point numbers.
_WHOLE_NUMBER = re.compile(r"([1-9][0-9]{6,14})[.,]0+")
_WITHOUT_ZONE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2})?")


class UnclearCell(ValueError):
    """A cell has no single meaning; the message says why, and what to do."""


class CellReader:
    """`formats` has the decimal separator, or the order of day and month, by property."""

    def __init__(self, catalogue: Catalogue, formats: Mapping[str, str], timezone: str) -> None:
        self._catalogue = catalogue
        self._formats = formats
        self._zone = ZoneInfo(timezone) if timezone else None
        self._options = {
            prop.name: Options(prop.options)
            for prop in catalogue
            if prop.options and prop.options_from != "stages"
        }
        self._stages = _stage_labels(catalogue)

    def read(
        self, cells: Mapping[str, str], guarded: Collection[str]
    ) -> tuple[dict[str, str], str]:
        """Return the values by property, and the first fault or ""; `guarded` cells are text."""
        kind, fault = self._catalogue.kind, ""
        values: dict[str, str] = {}
        for name, cell in cells.items():
            prop = self._catalogue.get(name)
            # Programs fill columns of a fixed width with blanks.
            cell = "" if is_invisible(cell) else cell
            if not cell or prop is None or name == kind.stage:
                values[name] = cell
                continue
            try:
                _check_content(prop, cell, is_guarded=name in guarded)
                values[name] = self._value(prop, cell)
            except UnclearCell as exc:
                values[name] = cell
                fault = fault or f"{name}: {exc}"
        if kind.stage and values.get(kind.stage):
            try:
                pipeline = values.get(kind.pipeline, "")
                values[kind.stage] = self._stage(cells[kind.stage], pipeline)
            except UnclearCell as exc:
                fault = fault or f"{kind.stage}: {exc}"
        return values, fault

    def _value(self, prop: Property, cell: str) -> str:
        if prop.name in self._options:
            return self._option(prop, cell)
        if prop.type in NUMBER_TYPES:
            return read_number(cell, self._formats[prop.name]) or cell
        if prop.type in DATE_TYPES:
            text = read_date(cell, self._formats[prop.name]) or cell.strip()
            return self._in_utc(text) if prop.type == "datetime" else text
        if prop.type == "bool":
            # A file may come from a spreadsheet in another language than the account's.
            return truth_in_any_language(cell) or cell
        if prop.type == "phone" and (whole := _WHOLE_NUMBER.fullmatch(cell.strip())):
            return whole[1]
        return read_email(cell) if prop.type == "email" else cell

    def _option(self, prop: Property, cell: str) -> str:
        options = self._options[prop.name]
        try:
            if prop.type != "multi_enumeration":
                return options.one(cell)
            added = ";" if cell.lstrip().startswith(";") else ""
            return added + options.several(cell)
        except Unclear as exc:
            raise UnclearCell(str(exc)) from exc
        except Misfit:
            return cell

    def _stage(self, cell: str, pipeline: str) -> str:
        """The same label may occur in several pipelines: that of the row's pipeline counts."""
        text = cell.strip()
        found = [
            (pipeline_id, stage)
            for pipeline_id, stage in self._stages.get(text.casefold(), ())
            if pipeline in ("", pipeline_id)
        ]
        if any(each.has(text) for each in self._catalogue.pipelines) or not found:
            return cell
        if len({stage for _, stage in found}) > 1:
            ids = ", ".join(pipeline_id for pipeline_id, _ in found)
            raise UnclearCell(
                f'"{text[:60]}" is a stage of the pipelines {ids}; add a column for the pipeline'
            )
        return found[0][1]

    def _in_utc(self, text: str) -> str:
        if self._zone is None or not _WITHOUT_ZONE.fullmatch(text):
            return text
        try:
            moment = datetime.fromisoformat(text).replace(tzinfo=self._zone).astimezone(UTC)
        except (ValueError, OverflowError):
            return text
        return moment.replace(tzinfo=None).isoformat(sep=" ")


def _check_content(prop: Property, cell: str, *, is_guarded: bool) -> None:
    is_number, is_phone = prop.type in NUMBER_TYPES, prop.type == "phone"
    if is_guarded and not is_number and not is_phone:
        return
    if is_spreadsheet_error(cell):
        raise UnclearCell(f"{cell.strip()} is an error of a spreadsheet; correct the cell there")
    if has_lost_digits(cell, is_number=is_number, is_phone=is_phone):
        right = "a number with all digits" if is_number else "text"
        raise UnclearCell(
            f'"{cell.strip()[:40]}" was shortened by a spreadsheet; format the column as {right}'
            " there"
        )


def _stage_labels(catalogue: Catalogue) -> Mapping[str, list[tuple[str, str]]]:
    """By folded label. HubSpot exports a stage as `Closed Won (Sales Pipeline)`."""
    stages: dict[str, list[tuple[str, str]]] = {}
    for pipeline in catalogue.pipelines:
        for stage in pipeline.stages:
            for text in (stage.label, f"{stage.label} ({pipeline.label})"):
                stages.setdefault(text.strip().casefold(), []).append((pipeline.id, stage.id))
    return stages
