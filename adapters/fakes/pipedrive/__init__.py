"""A fake Pipedrive: API v2 of people, organizations and deals, and v1 of users, in memory.

Its rules are those of Pipedrive's API files and pages of August 2026. Where these are silent, an
option chooses between the readings, or the harsher one is served.
"""

from adapters.fakes.pipedrive.fake import FakePipedrive, Options

__all__ = ["FakePipedrive", "Options"]
