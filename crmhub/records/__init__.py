"""The hub's own records: catalogue, values, search, paging, associations, pipelines."""
