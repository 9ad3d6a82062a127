"""Limits on the cost of a single call; docs/integrator.md lists those that callers can reach."""

from __future__ import annotations

# Of a request.
MAX_HEAD_BYTES = 32 * 1024
MAX_BODY_BYTES = 1024 * 1024
MAX_JSON_DEPTH = 20
MAX_BATCH_INPUTS = 100

# Of an answer that is kept for an Idempotency-Key.
MAX_KEPT_ANSWER_BYTES = 65_536

# Of a record: characters of one value, and of all its values together.
MAX_TEXT_LENGTH = 65_536
MAX_RECORD_LENGTH = 131_072

# Of a search: lengths are in characters; a part is the value of CONTAINS_TOKEN.
MAX_FILTERS = 50
MAX_FILTER_VALUES = 500
MAX_FILTER_VALUE_LENGTH = 4000
MAX_PART_LENGTH = 200

# Of a page: bytes of all its records' properties as JSON.
MAX_PAGE_BYTES = 4 * 1024 * 1024

# Of an account's properties and pipelines: of one kind of record each. The options are those of
# all its properties together.
MAX_PROPERTIES = 1000
MAX_OPTIONS = 5000
MAX_PIPELINES = 100
MAX_STAGES = 100

# Of a call of getProperties: the names it asks for.
MAX_ASKED_PROPERTIES = 50
