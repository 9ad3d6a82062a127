"""Limits on the cost of a single call; docs/integrator/errors.md lists those that callers reach."""

from __future__ import annotations

# Limits on a request.
MAX_HEAD_BYTES = 32 * 1024
MAX_BODY_BYTES = 1024 * 1024
MAX_JSON_DEPTH = 20
MAX_BATCH_INPUTS = 100

# Limit on an answer stored for an Idempotency-Key.
MAX_KEPT_ANSWER_BYTES = 65_536

# Limits on a record, in characters: a single value, and all its values together.
MAX_TEXT_LENGTH = 65_536
MAX_RECORD_LENGTH = 131_072

# Limits on a search; lengths are in characters. A part is the value of CONTAINS_TOKEN.
MAX_FILTERS = 50
MAX_FILTER_VALUES = 500
MAX_FILTER_VALUE_LENGTH = 4000
MAX_PART_LENGTH = 200

# Limit on a page of records: bytes of all properties as JSON.
MAX_PAGE_BYTES = 4 * 1024 * 1024

# Limits on an account's properties and pipelines, for each kind of record. The limit on options is
# that for all properties together.
MAX_PROPERTIES = 1000
MAX_OPTIONS = 5000
MAX_PIPELINES = 100
MAX_STAGES = 100

# Limit on the property names in a call of getProperties.
MAX_ASKED_PROPERTIES = 50
