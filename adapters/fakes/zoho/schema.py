"""The modules of the fake account: their fields, and the layouts and pipelines of deals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MODULES = {"Contacts": "contacts", "Deals": "deals", "Cases": "tickets", "Accounts": "companies"}
"""The kinds of records, under the hub's names, by the names of their modules."""
_ORGANIZATION = "5725767"
_LENGTHS = {"text": 255, "email": 100, "phone": 30, "website": 450, "textarea": 32_000}
_JSON_TYPES = {
    "integer": "integer",
    "double": "double",
    "percent": "double",
    "currency": "double",
    "boolean": "boolean",
    "multiselectpicklist": "jsonarray",
    "lookup": "jsonobject",
    "ownerlookup": "jsonobject",
    "subform": "jsonarray",
}


def id_of(number: int) -> str:
    """Return the id with this number in the account's form, of 19 digits."""
    return f"{_ORGANIZATION}{number:012d}"


@dataclass(slots=True)
class Column:
    """A field of a module; the attributes have Zoho's names for them in its definition.

    `json` is the JSON type, and `created` the time at which a custom field was made. `options` are
    the actual and the display values of a picklist. `lookup` is the module to whose records the
    field links.
    """

    name: str
    data_type: str = "text"
    label: str = ""
    json: str = ""
    length: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    lookup: str = ""
    mandatory: bool = False
    read_only: bool = False
    create_only: bool = False
    unique: bool = False
    encrypted: bool = False
    custom: bool = False
    created: str | None = None

    @property
    def most(self) -> int:
        """The greatest length of a text; 0 for values of other types."""
        return self.length or _LENGTHS.get(self.data_type, 0)

    @property
    def json_type(self) -> str:
        """The type of the JSON value."""
        return self.json or _JSON_TYPES.get(self.data_type, "string")

    def definition(self, number: int) -> dict[str, Any]:
        """Return the definition as the endpoint for fields shows it."""
        writable = not self.read_only
        label = self.label or self.name.replace("_", " ")
        allowed = {"api_create": writable, "api_update": writable and not self.create_only}
        lookup = {"module": {"api_name": self.lookup, "crypt": False, "id": id_of(77)}}
        return {
            **_USUAL,
            "id": id_of(number),
            "api_name": self.name,
            "field_label": label,
            "display_label": label,
            "data_type": self.data_type,
            "json_type": self.json_type,
            "length": self.most or 20,
            "system_mandatory": self.mandatory,
            "read_only": self.read_only,
            "field_read_only": self.read_only,
            "operation_type": allowed | {"web_create": writable, "web_update": writable},
            "custom_field": self.custom,
            "created_time": self.created,
            "unique": {"case_sensitive": False} if self.unique else {},
            "crypt": {"mode": "decryption", "status": 1} if self.encrypted else None,
            "lookup": {"display_label": label, "id": id_of(number), **lookup}
            if self.lookup
            else {},
            "pick_list_values": list(self._choices()),
        }

    def _choices(self) -> Iterator[dict[str, Any]]:
        for number, (actual, display) in enumerate(self.options.items(), 1):
            yield {
                "id": id_of(900 + number),
                "actual_value": actual,
                "reference_value": actual,
                "display_value": display,
                "sequence_number": number,
                "type": "used",
            }


# The parts of a definition that are the same for all fields of the fake.
_USUAL: Mapping[str, Any] = {
    **dict.fromkeys(("webhook", "filterable", "visible", "searchable", "sortable"), True),
    **dict.fromkeys(("separator", "history_tracking_enabled", "public"), False),
    **dict.fromkeys(("businesscard_supported", "enable_colour_code"), False),
    **dict.fromkeys(("virtual_field", "display_field", "mass_update"), False),
    "colour_code_enabled_by_system": False,
    "pick_list_values_sorted_lexically": False,
    "type": "used",
    "created_source": "default",
    "display_type": -1,
    "ui_type": 1,
    "profiles": [],
    **dict.fromkeys(("association_details", "external", "range", "rollup_summary"), None),
    "view_type": dict.fromkeys(("view", "edit", "quick_create", "create"), True),
    "multi_module_lookup": {},
    "currency": {},
    "formula": {},
    "multiselectlookup": {},
    "auto_number": {},
    "convert_mapping": {},
    "email_parser": {"fields_update_supported": True, "record_operations_supported": True},
}


def _choices(*values: str, **translated: str) -> dict[str, str]:
    return {"-None-": "-None-", **dict(zip(values, values, strict=True)), **translated}


def _system() -> list[Column]:
    return [
        Column("Owner", "ownerlookup", lookup="users"),
        Column("Created_Time", "datetime", read_only=True),
        Column("Modified_Time", "datetime", read_only=True),
        Column("Tag", "text", json="jsonarray"),
        Column("Description", "textarea"),
        Column("id", "bigint", read_only=True),
    ]


@dataclass(frozen=True, slots=True)
class Stages:
    """A pipeline: the name that records have of it, its label, and its stages (value: label)."""

    name: str
    label: str
    stages: Mapping[str, str]
    default: bool = False


_SALES = {
    "Qualification": "Qualification",
    "Negotiation/Review": "Negotiation/Review",
    "Closed Won": "Gewonnen",
    "Closed Lost": "Closed Lost",
}
LAYOUTS: Mapping[str, tuple[str, str, Sequence[Stages]]] = {
    id_of(101): (
        "Standard",
        "active",
        (
            Stages("Enterprise (Standard)", "Enterprise", {"Tender": "Tender", **_SALES}),
            Stages("Standard (Standard)", "Standard", _SALES, default=True),
        ),
    ),
    id_of(102): ("Old", "inactive", (Stages("Old (Old)", "Old", _SALES, default=True),)),
    id_of(103): (
        "Partners",
        "active",
        (Stages("Partners (Partners)", "Partner sales", {"Signed": "Signed"}, default=True),),
    ),
}
"""The layouts of deals by id: name, status, and pipelines."""
_STAGES = {s: t for *_, pipes in LAYOUTS.values() for pipe in pipes for s, t in pipe.stages.items()}
_PIPELINES = {pipe.name: pipe.label for *_, pipes in LAYOUTS.values() for pipe in pipes}


def modules(
    *, unique_email: bool, encrypted_email: bool, mark: str, mark_is_unique: bool
) -> dict[str, dict[str, Column]]:
    """Return the fields of each module of a fresh account, by module and by name."""
    columns = {
        "Contacts": [
            Column("First_Name", length=40),
            Column("Last_Name", length=80, mandatory=True),
            Column("Full_Name", read_only=True),
            Column("Email", "email", unique=unique_email, encrypted=encrypted_email),
            Column("Secondary_Email", "email"),
            Column("Phone", "phone"),
            Column("Mobile", "phone"),
            Column("Title", length=100),
            Column("Account_Name", "lookup", lookup="Accounts"),
            Column("Date_of_Birth", "date"),
            Column("Email_Opt_Out", "boolean"),
            Column(
                "Lead_Source", "picklist", options=_choices("Web", "Chat", Referral="Empfehlung")
            ),
            Column("Record_Image", "profileimage"),
            Column("Status", "picklist", options=_choices("customer", "lead"), custom=True),
            Column(
                "Interests", "multiselectpicklist", options=_choices("news", "offers"), custom=True
            ),
            Column("Score", "double", custom=True),
            Column("Visits", "integer", custom=True),
            Column("Revenue", "currency", custom=True),
            Column("Ledger_Number", "bigint", custom=True),
            Column("Last_Visit", "datetime", custom=True),
            Column("Homepage", "website", custom=True),
            Column("Sign_Up_Code", create_only=True, custom=True),
        ],
        "Deals": [
            Column("Deal_Name", length=120, mandatory=True),
            Column("Stage", "picklist", options=_STAGES, mandatory=True),
            Column("Pipeline", "picklist", options=_PIPELINES),
            Column("Amount", "currency"),
            Column("Closing_Date", "date"),
            Column("Contact_Name", "lookup", lookup="Contacts"),
            Column("Account_Name", "lookup", lookup="Accounts"),
        ],
        "Cases": [
            Column("Case_Number", "autonumber", read_only=True),
            Column("Subject", mandatory=True),
            Column(
                "Status", "picklist", options=_choices("New", "On Hold", "Closed"), mandatory=True
            ),
            Column("Priority", "picklist", options=_choices("High", "Medium", "Low")),
            Column("Case_Origin", "picklist", options=_choices("Email", "Phone", "Web")),
            Column("Account_Name", "lookup", lookup="Accounts"),
            Column("Related_To", "lookup", lookup="Contacts"),
        ],
        "Accounts": [Column("Account_Name", length=200, mandatory=True), Column("Phone", "phone")],
    }
    for module in ("Contacts", "Deals", "Cases") if mark else ():
        columns[module].append(Column(mark, length=100, unique=mark_is_unique, custom=True))
    return {
        module: {column.name: column for column in [*listed, *_system()]}
        for module, listed in columns.items()
    }
