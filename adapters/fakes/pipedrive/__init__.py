"""A fake Pipedrive: API v2 of people and deals, and v1 of users, in memory.

Its rules are those of Pipedrive's API files and pages of August 2026. Where these are silent, an
option chooses between the readings, or the harsher one is served.

- `fake`: `FakePipedrive` and its options: credentials, scopes, limits, paths
- `company`: the records, and what lists, searches and writes do
- `catalogue`: the fields of people and deals
- `values`: the validation of a write
- `answers`: bodies in Pipedrive's format
- `command`: `crmhub fake pipedrive`
"""

from adapters.fakes.pipedrive.fake import FakePipedrive, Options

__all__ = ["FakePipedrive", "Options"]
