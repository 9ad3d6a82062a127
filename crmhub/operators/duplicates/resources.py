"""Possible duplicates, as operators see them, and what they do with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from crmhub.operators.resources import Argument, Column, Resource, Verb, inside

if TYPE_CHECKING:
    from crmhub.audit import Author
    from crmhub.hub import Hub
    from crmhub.identity.possible_duplicates import Pair

_HERE = "crmhub.operators.duplicates.resources"
_MERGING = "crmhub.operators.duplicates.merge_contacts"
_STATES = "crmhub.identity.possible_duplicates:STATES"
_ALL = "/accounts/<client_id>/duplicates"
_PAIR = f"{_ALL}/<contact_id>/<other_id>"
_LONGEST = 255
_NEVER: dict[str, Any] = {"null": True, "says": "null: not, or not any more."}

# --- what is shown ---------------------------------------------------------------------------

PAIR = Resource(
    "Duplicate",
    (
        Column("contactIds", "words", of="ids"),
        Column("", of="one", title="One"),
        Column("", of="other", title="Other"),
        Column("shares", "words", "phone, name or both."),
        Column("", of=lambda pair: ", ".join(pair.shares), title="Both have"),
        Column("state", words=_STATES, title="State"),
        Column("foundAt", "moment"),
        Column("", "moment", of="found_at", title="Found"),
        Column("decidedAt", "moment", **_NEVER),
        Column("decidedBy", "text", 'Who merged or dismissed it; "" for the CRM itself.'),
        Column("keptId", title="Kept"),
        Column("unmergeUntil", "moment", **_NEVER, title="Unmerge until", never=""),
    ),
)
COMPARED = Resource(
    "ContactCompared",
    (
        Column("contactId", of="id"),
        Column("exists", "flag"),
        Column("createdAt", "moment", **_NEVER),
        Column("url", "text", "Its page in the CRM."),
        Column("error", "text", "Why the CRM could not show the contact."),
        Column("properties", "texts"),
    ),
)
MERGED_PROPERTY = Resource(
    "PropertyMerged",
    (
        Column("name"),
        Column("label"),
        Column("from", of="winner"),
        Column("value", of=lambda value: value.of[value.winner]),
    ),
)
PREVIEW = Resource(
    "DuplicatePreview",
    (
        *inside("pair", (each for each in PAIR.columns if each.wire)),
        Column("contacts", COMPARED, "The contact to keep comes first.", of="sides", many=True),
        Column("obstacle", "text", "Why the hub cannot merge the pair, if so."),
        Column("version", "text", "Changes with the values of either contact."),
        Column("properties", MERGED_PROPERTY, of="values", many=True),
        Column("moves", "numbers", "How many links, conversations and enrolments move."),
    ),
)


# --- what operators do -----------------------------------------------------------------------


def list_pairs(
    hub: Hub,
    client_id: str,
    *,
    limit: int,
    state: str = "",
    after: Sequence[Any] | None = None,
) -> list[Pair]:
    """Return pairs, the newest first; `after`: the key, or only the ids, of the last one seen."""
    from crmhub.identity import possible_duplicates

    account = hub.load_account(client_id)
    with hub.database.reading() as db:
        if after and len(after) == 2:
            last = possible_duplicates.find(db, account, *after)
            after = (last.found_at, *last.ids)
        place: Any = tuple(after) if after else None
        return possible_duplicates.listed(db, account, state=state, after=place, limit=limit)


def dismiss(
    hub: Hub,
    client_id: str,
    contact_id: str,
    other_id: str,
    *,
    reason: Literal["different", "merged"] = "different",
    by: Author,
) -> Pair:
    from crmhub.operators.duplicates import merge_contacts

    account, merged = hub.load_account(client_id), reason == "merged"
    return merge_contacts.dismiss(hub, account, contact_id, other_id, by=by, merged=merged)


REASONS = ("different", "merged")
_KEEP = Argument(
    "keep", "filled", "The contact to keep; by default the older one.", longest=_LONGEST
)

LIST = Verb(
    operation="listDuplicates",
    route=f"GET {_ALL}",
    scope="actions:read",
    does=f"{_HERE}:list_pairs",
    summary="List possible duplicates, newest first",
    input="DuplicatesQuery",
    arguments=(Argument("state", "choice", "In this state.", words=_STATES),),
    shows=PAIR,
    many=True,
    place=lambda pair: [pair.found_at, *pair.ids],
)
UNMERGE = Verb(
    operation="unmergeDuplicate",
    route=f"POST {_PAIR}/unmerge",
    scope="actions:write",
    errors=(400, 401, 403, 404, 409, 429, 500, 503),
    command="unmerge",
    does=f"{_MERGING}:unmerge",
    summary="Undo a merge of the last 30 days",
    help="Both contacts exist again. Values written since the merge stay with the kept contact.",
    shows=PAIR,
    says=lambda pair, _: [f"Contacts {pair.one} and {pair.other} are separate again."],
)
DISMISS = Verb(
    operation="dismissDuplicate",
    route=f"POST {_PAIR}/dismiss",
    scope="actions:write",
    does=f"{_HERE}:dismiss",
    summary="Close a pair without merging it here",
    input="DismissInput",
    arguments=(
        Argument(
            "reason",
            "choice",
            "Two `different` persons, or `merged` in the account's CRM.",
            required=True,
            words=f"{_HERE}:REASONS",
        ),
    ),
    shows=PAIR,
)
VERBS = (
    LIST,
    Verb(
        operation="previewDuplicate",
        route=f"GET {_PAIR}",
        scope="actions:read",
        errors=(400, 401, 403, 404, 422, 429, 500, 503),
        does="crmhub.operators.duplicates.compare_contacts:preview",
        summary="Read a pair, and preview its merge",
        input="DuplicateQuery",
        arguments=(_KEEP,),
        shows=PREVIEW,
    ),
    Verb(
        operation="mergeDuplicate",
        route=f"POST {_PAIR}/merge",
        scope="actions:write",
        does=f"{_MERGING}:merge",
        summary="Merge a pair as its preview shows",
        input="MergeInput",
        arguments=(
            Argument(
                "version", "filled", "The `version` of the preview.", required=True, longest=40
            ),
            _KEEP,
            Argument(
                "take",
                "texts",
                "Property name to the id of the contact whose value wins. Otherwise the kept"
                " contact's value wins, and a blank one is filled from the other contact.",
            ),
        ),
        shows=PAIR,
    ),
    UNMERGE,
    DISMISS,
)
