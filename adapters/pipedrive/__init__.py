"""The adapter for Pipedrive, an entry point of the group `crmhub.adapters`."""

from adapters.pipedrive.adapter import PipedriveAdapter

__all__ = ["PipedriveAdapter"]
