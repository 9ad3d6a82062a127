"""The association types between kinds of records, and the links between records.

An association type is a kind of link, such as contact to deal; the ids of the types are those of
HubSpot's association guide and SDK.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from adapters.fakes.hubspot.answers import Refused
from adapters.fakes.hubspot.definitions import SINGULAR, TYPE_IDS
from adapters.fakes.hubspot.portal import Portal, Record


@dataclass(frozen=True, slots=True)
class LinkType:
    """An association type: a kind of link from records of one kind to records of another.

    `inverse` is the id of the association type for the opposite direction.
    """

    id: int
    source: str
    target: str
    inverse: int
    primary: bool = False

    @property
    def name(self) -> str:
        """The association type's name as it appears in the responses with records."""
        plain = f"{SINGULAR[self.source]}_to_{SINGULAR[self.target]}"
        with_company = "companies" in (self.source, self.target)
        return plain if self.primary or not with_company else f"{plain}_unlabeled"


def _both_ways(
    source: str, target: str, there: int, back: int, *, primary: bool = False
) -> list[LinkType]:
    return [
        LinkType(there, source, target, back, primary),
        LinkType(back, target, source, there, primary),
    ]


TYPES: dict[int, LinkType] = {
    link_type.id: link_type
    for link_type in (
        *_both_ways("deals", "contacts", 3, 4),
        *_both_ways("tickets", "contacts", 16, 15),
        *_both_ways("contacts", "companies", 279, 280),
        *_both_ways("contacts", "companies", 1, 2, primary=True),
        *_both_ways("deals", "companies", 341, 342),
        *_both_ways("deals", "companies", 5, 6, primary=True),
        *_both_ways("tickets", "companies", 339, 340),
        *_both_ways("tickets", "companies", 26, 25, primary=True),
        *_both_ways("deals", "tickets", 27, 28),
        *_both_ways("contacts", "contacts", 449, 449),
        *_both_ways("companies", "companies", 450, 450),
        *_both_ways("deals", "deals", 451, 451),
        *_both_ways("tickets", "tickets", 452, 452),
    )
}


def types_between(source: str, target: str) -> list[LinkType]:
    """Return the association types (kinds of link) from the kind `source` to the kind `target`.

    The type without a label comes first.
    """
    types = [
        link_type
        for link_type in TYPES.values()
        if (link_type.source, link_type.target) == (source, target)
    ]
    return sorted(types, key=lambda link_type: link_type.primary)


def default_type(source: str, target: str) -> LinkType:
    """Return the unlabelled association type from the kind `source` to the kind `target`."""
    return types_between(source, target)[0]


def described(type_: LinkType) -> dict[str, Any]:
    """Return an association type in the format of the responses about association labels."""
    return {
        "category": "HUBSPOT_DEFINED",
        "typeId": type_.id,
        "label": "Primary" if type_.primary else None,
    }


def checked_types(source: str, given: Iterable[dict[str, Any]], *, to: str) -> list[LinkType]:
    """Return the association types that a request body gives for links of a record.

    `source` is the kind of that record. `to` is the id of the record to link it with, for the error
    body. Raises Refused with status 400 if the body gives no type, an unknown type, or a type that
    does not start at `source`.
    """
    types = []
    for named in given:
        type_ = TYPES.get(named["associationTypeId"])
        if (
            type_ is None
            or type_.source != source
            or named["associationCategory"] != ("HUBSPOT_DEFINED")
        ):
            raise invalid_objects(
                f"{named['associationCategory']} association type {named['associationTypeId']} "
                f"does not start at {TYPE_IDS[source]}",
                kind=source,
                id_=to,
            )
        types.append(type_)
    if not types:
        raise Refused(400, "At least one association type is needed")
    return types


def checked_target(portal: Portal, type_: LinkType, id_: str) -> Record:
    """Return the record with the id `id_` at the end of a link of type `type_`.

    Raises Refused with status 400 if there is no such record of the type's target kind.
    """
    # HubSpot documents only for reads that the id of a merged record leads to the new record.
    if (record := portal.find(type_.target, id_)) and record.id == id_:
        return record
    raise invalid_objects(
        f"No {SINGULAR[type_.target]} with id {id_} exists", kind=type_.target, id_=id_
    )


def invalid_objects(message: str, *, kind: str, id_: str) -> Refused:
    """Return HubSpot's 400 response to a link with an invalid record.

    `kind` and `id_` are those of the invalid record, which the response names in its `context`.
    """
    return Refused(
        400,
        message,
        context={"INVALID_OBJECT_IDS": [id_], "objectId": [id_], "objectType": [TYPE_IDS[kind]]},
    )


def link(portal: Portal, source: Record, target: Record, type_: LinkType) -> None:
    """Link two records in both directions with an association type (kind of link).

    If the type has a label, the link without a label is added, too.
    """
    there, back = (source.kind, source.id), (target.kind, target.id)
    linked_types = {type_, default_type(type_.source, type_.target)}
    for link_type in linked_types:
        portal.links.setdefault(there, {}).setdefault(back, set()).add(link_type.id)
        portal.links.setdefault(back, {}).setdefault(there, set()).add(link_type.inverse)


def unlink(portal: Portal, source: Record, kind: str, id_: str) -> None:
    """Delete all links between the record `source` and the record with this kind and id."""
    there, back = (source.kind, source.id), (kind, id_)
    portal.links.get(there, {}).pop(back, None)
    portal.links.get(back, {}).pop(there, None)


def linked(portal: Portal, record: Record, kind: str) -> dict[str, set[int]]:
    """Return the records of the kind `kind` that are linked to `record`.

    The result maps the ids of the linked records to the ids of the links' association types.
    """
    links = portal.links.get((record.kind, record.id), {})
    return {id_: types for (of, id_), types in links.items() if of == kind}


def shown_links(portal: Portal, record: Record, kinds: Iterable[str]) -> dict[str, Any]:
    """Return a record's links in the format of the field `associations` in HubSpot's responses.

    `kinds` are the kinds of linked records to include; kinds without links are left out.
    """
    found = {kind: linked(portal, record, kind) for kind in kinds}
    return {
        kind: {
            "results": [
                {"id": id_, "type": TYPES[type_id].name}
                for id_, types in sorted(links.items(), key=lambda item: int(item[0]))
                for type_id in sorted(types)
            ]
        }
        for kind, links in found.items()
        if links
    }
