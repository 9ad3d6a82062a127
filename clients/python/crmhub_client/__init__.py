"""Client of a crmhub, synchronous (`Hub`) and asynchronous (`AsyncHub`)."""

from crmhub_client.changes import Bookmark as Bookmark
from crmhub_client.changes import FileBookmark as FileBookmark
from crmhub_client.errors import *  # noqa: F403
from crmhub_client.events import verify_event as verify_event
from crmhub_client.hubs import AsyncHub as AsyncHub
from crmhub_client.hubs import Hub as Hub
from crmhub_client.records import New as New
from crmhub_client.results import *  # noqa: F403
from crmhub_client.retries import Retry as Retry

__version__ = "0.1.0"
