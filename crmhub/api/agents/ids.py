"""Read the ids of records that agents send."""

from __future__ import annotations

from crmhub.adapter import is_record_id
from crmhub.errors import BadRequest
from crmhub.properties.kinds import Kind


def own_id(kind: Kind, sent: object, where: str) -> int:
    """Return the id of one of the hub's own records as an integer.

    `where`: the argument, for the message. Raises BadRequest for a text that cannot be an id.
    """
    text = str(sent).strip()
    if not is_record_id(text):
        shown = "".join(c if c.isprintable() else "�" for c in text[:60])
        raise BadRequest(
            f"{where}: {shown!r} is not the id of a {kind.singular} in the hub; send a number such"
            " as 481516234211, as search_records and find_contacts answer it."
        )
    return int(text)
