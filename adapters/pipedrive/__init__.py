"""The adapter for Pipedrive, an entry point of the group `crmhub.adapters`.

- `adapter`: finds and writes people and deals; implements the contract.
- `definitions`: Pipedrive's fields under the hub's names, their values, and pipelines.
- `entries`: the lists in which a person has several emails and phones.
- `api`: calls, tokens, limits and errors.
- `connecting`: settings, guides for people, and the addresses of OAuth.
"""

from adapters.pipedrive.adapter import PipedriveAdapter

__all__ = ["PipedriveAdapter"]
