"""The hub's own records: storage, search, paging, links, property definitions and pipelines."""
