"""The definitions of an account's properties, pipelines and stages, as data."""

from __future__ import annotations

from dataclasses import dataclass, field

from crmhub.properties.values import DATE_TYPES, NUMBER_TYPES, Option


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a pipeline; `probability` is a number from 0 to 1 as text, "" for none."""

    id: str
    label: str
    probability: str = ""
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline of deals or tickets; a new record without a stage gets the first one."""

    id: str
    label: str
    stages: tuple[Stage, ...]

    def has(self, stage: str) -> bool:
        return any(item.id == stage for item in self.stages)


@dataclass(frozen=True, slots=True)
class Property:
    """The definition of a property; its `prop_id` is never used again in the account.

    `options_from` is "pipelines" or "stages" if the options are the account's, else "". With
    `any_case`, upper and lower case of an option's value do not matter.
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
