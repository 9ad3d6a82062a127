"""The modules of the fake Zoho account: their fields, and the layouts and pipelines of deals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Any

from adapters.fakes.fields import Field

USERS = (
    {"id": "5725767000000000001", "full_name": "Grace Hopper", "email": "grace@example.com"},
    {"id": "5725767000000000002", "full_name": "Alan Turing", "email": "alan@example.com"},
)
"""The active users."""
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
_EMAIL = re.compile(r"[^@\s\\,;:]+@[^@\s\\,;:]+\.[^@\s\\,;:.]{2,}")
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# Without fractions of a second, and with an offset instead of Z.
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", re.ASCII)


def id_of(number: int) -> str:
    """Return the id with this number in the account's form, of 19 digits."""
    return f"5725767{number:012d}"


@dataclass(slots=True)
class Column(Field):
    """A field of a module; further attributes have Zoho's names for them in its definition.

    `json` is the JSON type, and `created` the time at which a custom field was made. `labels` are
    the actual and the display values of a picklist. `to` is the module to whose records the field
    links.
    """

    json: str = ""
    length: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    create_only: bool = False
    encrypted: bool = False
    custom: bool = False
    created: str | None = None

    @property
    def most(self) -> int:
        """The greatest length of a text; 0 for values of other types."""
        return self.length or _LENGTHS.get(self.type, 0)

    @property
    def json_type(self) -> str:
        """The type of the JSON value."""
        return self.json or _JSON_TYPES.get(self.type, "string")

    def fault(self, value: Any) -> dict[str, Any]:
        """Return the details that say why a value does not fit; empty if it does."""
        match self.json_type:
            case "boolean":
                fits = isinstance(value, bool)
            case "integer":
                fits = isinstance(value, int) and not isinstance(value, bool)
            case "double":
                fits = isinstance(value, int | float) and not isinstance(value, bool)
            case "jsonobject":
                fits = isinstance(value, dict) and isinstance(value.get("id"), str)
            case "jsonarray" if isinstance(value, list):
                return {} if {*value} <= {*self.labels} else self._supported()
            case _:
                fits = self.json_type == "string" and isinstance(value, str)
        if not fits:
            return {"expected_data_type": self.json_type}
        return self._text_fault(value) if isinstance(value, str) else {}

    def _text_fault(self, value: str) -> dict[str, Any]:
        if self.most and len(value) > self.most:
            return {"maximum_length": self.most}
        match self.type:
            case "picklist":
                return {} if value in self.labels else self._supported()
            case "email":
                fits = _EMAIL.fullmatch(value) is not None
            case "bigint":
                fits = value.isdecimal()
            case "date":
                fits = _is_time(_DATE, date, value)
            case "datetime":
                fits = _is_time(_TIME, datetime, value)
            case _:
                fits = True
        return {} if fits else {"expected_data_type": self.type}

    def _supported(self) -> dict[str, Any]:
        return {"supported_values": list(self.labels)}

    def definition(self, name: str, number: int) -> dict[str, Any]:
        """Return the definition as the endpoint for fields shows it."""
        writable, label = not self.read_only, name.replace("_", " ")
        allowed = {"api_create": writable, "api_update": writable and not self.create_only}
        lookup = {"module": {"api_name": self.to, "crypt": False, "id": id_of(77)}}
        return {
            **_USUAL,
            "id": id_of(number),
            "api_name": name,
            "field_label": label,
            "display_label": label,
            "data_type": self.type,
            "json_type": self.json_type,
            "length": self.most or 20,
            "system_mandatory": self.required,
            "read_only": self.read_only,
            "field_read_only": self.read_only,
            "operation_type": allowed | {"web_create": writable, "web_update": writable},
            "custom_field": self.custom,
            "created_time": self.created,
            "unique": {"case_sensitive": False} if self.unique else {},
            "crypt": {"mode": "decryption", "status": 1} if self.encrypted else None,
            "lookup": {"display_label": label, "id": id_of(number), **lookup} if self.to else {},
            "pick_list_values": list(self._choices()),
        }

    def _choices(self) -> Iterator[dict[str, Any]]:
        for number, (actual, display) in enumerate(self.labels.items(), 1):
            yield {
                "id": id_of(900 + number),
                "actual_value": actual,
                "reference_value": actual,
                "display_value": display,
                "sequence_number": number,
                "type": "used",
            }


def _is_time(form: re.Pattern[str], of: type[date], value: str) -> bool:
    try:
        return bool(form.fullmatch(value) and of.fromisoformat(value))
    except ValueError:
        return False


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


def pipelines(layout_id: str) -> Iterator[dict[str, Any]]:
    """Yield the pipelines of a layout with their stages, as their endpoint shows them."""
    for number, pipeline in enumerate(LAYOUTS[layout_id][2], 1):
        yield {
            "id": id_of(200 + number),
            "display_value": pipeline.label,
            "actual_value": pipeline.name,
            "default": pipeline.default,
            "maps": [
                {
                    "id": id_of(300 + place),
                    "display_value": label,
                    "actual_value": value,
                    "sequence_number": place,
                    "forecast_type": "Open",
                    "forecast_category": {"name": "Pipeline", "id": id_of(400)},
                }
                for place, (value, label) in enumerate(pipeline.stages.items(), 1)
            ],
        }


def _text(**more: Any) -> Column:
    return Column("text", **more)


def _pick(*values: str, custom: bool = False, **translated: str) -> Column:
    labels = {"-None-": "-None-", **dict(zip(values, values, strict=True)), **translated}
    return Column("picklist", labels=labels, custom=custom)


def modules(
    *, unique_email: bool, encrypted_email: bool, mark: str, mark_is_unique: bool
) -> dict[str, dict[str, Column]]:
    """Return the fields of each module of a fresh account, by module and by name."""
    system = {
        "Owner": Column("ownerlookup", to="users"),
        "Created_Time": Column("datetime", read_only=True),
        "Modified_Time": Column("datetime", read_only=True),
        "Tag": _text(json="jsonarray"),
        "Description": Column("textarea"),
        "id": Column("bigint", read_only=True),
    }
    account = {"Account_Name": Column("lookup", to="Accounts")}
    interests = {"-None-": "-None-", "news": "news", "offers": "offers"}
    columns = {
        "Contacts": {
            "First_Name": _text(length=40),
            "Last_Name": _text(length=80, required=True),
            "Full_Name": _text(read_only=True),
            "Email": Column("email", unique=unique_email, encrypted=encrypted_email),
            "Secondary_Email": Column("email"),
            "Phone": Column("phone"),
            "Mobile": Column("phone"),
            "Title": _text(length=100),
            **account,
            "Date_of_Birth": Column("date"),
            "Email_Opt_Out": Column("boolean"),
            "Lead_Source": _pick("Web", "Chat", Referral="Empfehlung"),
            "Record_Image": Column("profileimage"),
            "Status": _pick("customer", "lead", custom=True),
            "Interests": Column("multiselectpicklist", labels=interests, custom=True),
            "Score": Column("double", custom=True),
            "Visits": Column("integer", custom=True),
            "Revenue": Column("currency", custom=True),
            "Ledger_Number": Column("bigint", custom=True),
            "Last_Visit": Column("datetime", custom=True),
            "Homepage": Column("website", custom=True),
            "Sign_Up_Code": _text(create_only=True, custom=True),
        },
        "Deals": {
            "Deal_Name": _text(length=120, required=True),
            "Stage": Column("picklist", labels=_STAGES, required=True),
            "Pipeline": Column("picklist", labels=_PIPELINES),
            "Amount": Column("currency"),
            "Closing_Date": Column("date"),
            "Contact_Name": Column("lookup", to="Contacts"),
            **account,
        },
        "Cases": {
            "Case_Number": Column("autonumber", read_only=True),
            "Subject": _text(required=True),
            "Status": _pick("New", "On Hold", "Closed"),
            "Priority": _pick("High", "Medium", "Low"),
            "Case_Origin": _pick("Email", "Phone", "Web"),
            **account,
            "Related_To": Column("lookup", to="Contacts"),
        },
        "Accounts": {
            "Account_Name": _text(length=200, required=True),
            "Phone": Column("phone"),
            "Website": Column("website"),
            "Industry": _pick("Farming", "Trade"),
            "Employees": Column("integer"),
            "Annual_Revenue": Column("currency"),
        },
    }
    columns["Cases"]["Status"].required = True
    columns["Notes"] = {
        "Note_Title": _text(length=120),
        "Note_Content": Column("textarea", length=65_535, required=True),
        "Parent_Id": Column("lookup", json="jsonobject", required=True),
    }
    columns["Tasks"] = {
        "Subject": _text(required=True),
        "Due_Date": Column("date"),
        "Priority": _pick("High", "Highest", "Low", "Lowest", "Normal"),
        "Status": _pick("Not Started", "Completed"),
        "Who_Id": Column("lookup", to="Contacts"),
    }
    for module in ("Contacts", "Deals", "Cases") if mark else ():
        columns[module][mark] = _text(length=100, unique=mark_is_unique, custom=True)
    return {
        module: {name: replace(column) for name, column in {**named, **system}.items()}
        for module, named in columns.items()
    }
