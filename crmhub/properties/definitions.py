"""The definitions of an account's properties, pipelines and stages, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from crmhub.properties.values import DATE_TYPES, NUMBER_TYPES, Option


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a pipeline.

    `probability` is a decimal number from 0 to 1 as text, "" for no probability.
    """

    id: str
    label: str
    probability: str = ""
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline of deals or tickets, and its stages in order.

    A new record without a stage gets the first stage.
    """

    id: str
    label: str
    stages: tuple[Stage, ...]

    def has(self, stage: str) -> bool:
        """Return whether the pipeline has a stage with the id `stage`."""
        return any(item.id == stage for item in self.stages)


@dataclass(frozen=True, slots=True)
class Property:
    """The definition of a property that records of one kind may have.

    `prop_id` is unique in the account and never used again. `options_from` is "pipelines" or
    "stages" if the options are derived from the account's pipelines, else "". With `any_case`,
    upper and lower case of an option's value do not matter.
    """

    prop_id: int
    name: str
    label: str
    type: str
    description: str = ""
    required: bool = False
    unique: bool = False
    read_only: bool = False
    built_in: bool = False
    any_case: bool = False
    options: tuple[Option, ...] = ()
    options_from: str = ""
    # The index table that holds its values.
    index: str = field(init=False)

    def __post_init__(self) -> None:
        table = "ix_date" if self.type in DATE_TYPES else "ix_text"
        object.__setattr__(self, "index", "ix_num" if self.type in NUMBER_TYPES else table)
