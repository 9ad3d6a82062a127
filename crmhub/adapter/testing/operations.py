from __future__ import annotations

from crmhub.adapter import Adapter, features
from crmhub.adapter.testing.operation import Operation
from crmhub.adapter.testing.reads import (
    ActiveWorkflow,
    ChangedSince,
    Check,
    Describe,
    FindByEmail,
    FindByPhone,
    FindMarked,
    Get,
    GetRecords,
    Owners,
    Pipelines,
)
from crmhub.adapter.testing.writes import (
    AddNote,
    Archive,
    Create,
    CreateDeal,
    CreateTask,
    CreateTicket,
    Link,
    Merge,
    Update,
    UpsertKnown,
    UpsertNew,
    UpsertSeveral,
    Write,
    WriteSeveral,
)

OPERATIONS: tuple[type[Operation], ...] = (
    FindByEmail,
    FindByPhone,
    Get,
    Create,
    Update,
    CreateDeal,
    CreateTicket,
    UpsertNew,
    UpsertKnown,
    UpsertSeveral,
    WriteSeveral,
    Describe,
    Pipelines,
    Owners,
    ActiveWorkflow,
    Check,
    FindMarked,
    ChangedSince,
    GetRecords,
    Write,
    Archive,
    Link,
    Merge,
    AddNote,
    CreateTask,
)


def operations_of(adapter: type[Adapter]) -> list[type[Operation]]:
    announced = features(adapter)
    return [
        operation
        for operation in OPERATIONS
        if not operation.feature or operation.feature in announced
    ]
