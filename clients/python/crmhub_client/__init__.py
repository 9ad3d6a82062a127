"""Client of a crmhub, synchronous (`Hub`) and asynchronous (`AsyncHub`)."""

from crmhub_client.errors import (
    ApiError,
    BadRequestError,
    ConflictError,
    ConnectionFailedError,
    ForbiddenError,
    HubClientError,
    InternalError,
    InvalidSignatureError,
    LimitExceededError,
    ManyRequestError,
    NoAnswerError,
    NotFoundError,
    ProxyFailedError,
    SemanticError,
    TimedOutError,
    UnauthorizedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from crmhub_client.events import verify_event
from crmhub_client.hubs import AsyncHub, Hub
from crmhub_client.records import New
from crmhub_client.results import (
    Batch,
    Event,
    HelperAnswer,
    ItemError,
    Page,
    Pipeline,
    PropertyDefinition,
    Record,
    Stage,
    Subscription,
    Usage,
)
from crmhub_client.retries import Retry

__version__ = "0.1.0"

__all__ = [
    "ApiError",
    "AsyncHub",
    "BadRequestError",
    "Batch",
    "ConflictError",
    "ConnectionFailedError",
    "Event",
    "ForbiddenError",
    "HelperAnswer",
    "Hub",
    "HubClientError",
    "InternalError",
    "InvalidSignatureError",
    "ItemError",
    "LimitExceededError",
    "ManyRequestError",
    "New",
    "NoAnswerError",
    "NotFoundError",
    "Page",
    "Pipeline",
    "PropertyDefinition",
    "ProxyFailedError",
    "Record",
    "Retry",
    "SemanticError",
    "Stage",
    "Subscription",
    "TimedOutError",
    "UnauthorizedError",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Usage",
    "verify_event",
]
