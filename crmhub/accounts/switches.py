"""The switches of an account, which operators set to adjust its helpers and its writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal, TypeVar, get_args, get_type_hints

from crmhub.accounts.rotations import read_rotation
from crmhub.adapter.reading import LANGUAGES, Reading
from crmhub.errors import Semantic, listed
from crmhub.translatable import translatable

T = TypeVar("T")

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_MOST_ORIGINS = 20
_LABEL = r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?"
_ORIGIN = re.compile(
    rf"(https?)://({_LABEL}(?:\.{_LABEL})*|\[[0-9a-f:.]+\])(?::([0-9]{{1,5}}))?", re.ASCII
)
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def _switch(default: T, says: str, **bounds: Any) -> T:
    """Return a field of `Switches`; the admin API documents its description and bounds."""
    return field(default=default, metadata={**bounds, "description": says})


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    strict: bool = _switch(False, "One bad property refuses the whole helper call.")
    soft_errors: bool = _switch(False, "Helpers answer errors with status 200.")
    require_secret: bool = _switch(False, "Helpers demand the webhook secret.")
    bare_tokens: bool = _switch(True, "A contactToken alone may find the account.")
    lead_requires: Literal["email", "email_or_phone"] = _switch(
        "email", "What createLead needs beside the name."
    )
    deadline_s: float = _switch(3.0, "Seconds that a helper call may take.", minimum=1, maximum=25)
    region: str = _switch(
        "",
        'The country of phones without country code, and of the order of day and month: "DE",'
        ' "" for none.',
    )
    language: str = _switch(
        "",
        "The language of words for yes and no, beside English, and of the `message` of the"
        ' helpers\' answers ("es" and "pt"): "" for English.',
    )
    blank_clears: bool = _switch(True, "Blank values of setProperties clear.")
    auto_define_properties: bool = _switch(
        False, "The public API defines unknown properties as text."
    )
    rotation: str = _switch(
        "random",
        "How getRandomInt chooses: random, round_robin, shuffle_bag or weighted:5,3,1, with"
        " +sticky behind it where a contact keeps its number.",
        maxLength=1000,
    )
    phone_identifies: bool = _switch(False, "A lead's phone decides before its conversation.")
    mirror: bool = _switch(
        False,
        "The hub keeps a copy of the CRM's records for the public API, agents and events. false"
        " deletes all records of the copy at once, without a question, and nothing in the CRM.",
    )
    mirror_properties: str = _switch(
        "",
        'The properties that are copied, joined by commas; "" for all. The values of others are'
        " not read from the CRM.",
    )
    mirror_every_s: int = _switch(
        60, "Seconds after which the CRM is asked for changes again.", minimum=10, maximum=86_400
    )
    answer_format: Literal["flat", "chatfuel", "manychat"] = _switch(
        "flat", "The form of the helpers' answers."
    )
    allowed_origins: str = _switch(
        "",
        'Origins whose pages may call the helpers, such as "https://www.example.com", joined by'
        ' commas; "" for none.',
    )

    @property
    def copied_properties(self) -> frozenset[str]:
        """Empty for all."""
        return frozenset(filter(None, self.mirror_properties.split(",")))

    @property
    def reading(self) -> Reading:
        """How the account's people write dates, yes and no."""
        return Reading(self.region, self.language)

    @classmethod
    def from_json(cls, text: str) -> Switches:
        """Unknown names are ignored."""
        names = {each.name for each in fields(cls)}
        stored: dict[str, Any] = json.loads(text)
        return cls(**{name: value for name, value in stored.items() if name in names})

    def to_json(self) -> str:
        """Only the switches whose values differ from their defaults."""
        values, default_values = asdict(self), asdict(Switches())
        changed = {name: values[name] for name in values if values[name] != default_values[name]}
        return json.dumps(changed)

    def changed(self, values: Mapping[str, Any]) -> Switches:
        """Return a copy with new values, texts or JSON values; raises Semantic with all faults."""
        read, problems = read_switches(values)
        if problems:
            raise Semantic(listed(problems))
        return replace(self, **read)


def read_switches(
    values: Mapping[str, Any], *, beside: Sequence[str] = ()
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the parsed values, and (name, reason) of each fault.

    `beside`: further names for the list of known ones.
    """
    parsed: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    for name, value in values.items():
        if name not in READERS:
            allowed = ", ".join([*READERS, *beside])
            reason = translatable("there is no such switch; known are %(allowed)s", allowed=allowed)
            problems.append((name, reason))
            continue
        try:
            parsed[name] = READERS[name](value)
        except ValueError as exc:
            problems.append((name, str(exc)))
    return parsed, problems


def _bool(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(translatable("%(value)s is neither true nor false", value=repr(value)))


def _one_of(*allowed: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        text = str(value).strip()
        if text not in allowed:
            raise ValueError(
                translatable(
                    "%(value)s is not one of %(allowed)s",
                    value=repr(value),
                    allowed=", ".join(allowed),
                )
            )
        return text

    return read


def _deadline(value: Any) -> float:
    try:
        seconds = float(str(value))
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 25:
        raise ValueError(
            translatable("%(value)s is not a number of seconds from 1 to 25", value=repr(value))
        )
    return seconds


def _region(value: Any) -> str:
    region = str(value).strip().upper()
    # Imported here because it is large and only this function needs it.
    import phonenumbers

    if region and region not in phonenumbers.SUPPORTED_REGIONS:
        raise ValueError(
            translatable(
                "%(value)s is not a region; give two letters of ISO 3166 such as DE or US,"
                " or nothing for none",
                value=repr(value),
            )
        )
    return region


def _language(value: Any) -> str:
    # Programs also give the region: es-MX.
    language = str(value).strip().lower().replace("_", "-").partition("-")[0]
    if language and language not in LANGUAGES:
        raise ValueError(
            translatable(
                "%(value)s is not a known language; give one of %(languages)s, or nothing for none",
                value=repr(value),
                languages=", ".join(LANGUAGES),
            )
        )
    return language


def _origins(value: Any) -> str:
    """Joined by commas, as browsers write them: in lower case, without the default port."""
    origins = list(dict.fromkeys(_origin(each) for each in re.split(r"[\s,]+", str(value)) if each))
    if len(origins) > _MOST_ORIGINS:
        raise ValueError(
            translatable(
                "has %(count)s origins; give at most %(most)s",
                count=len(origins),
                most=_MOST_ORIGINS,
            )
        )
    return ",".join(origins)


def _origin(text: str) -> str:
    match = _ORIGIN.fullmatch(text.lower())
    if match is None or int(match[3] or 1) not in range(1, 65536):
        raise ValueError(
            translatable(
                "%(text)s is not an origin; %(remedy)s", text=repr(text[:200]), remedy=_remedy(text)
            )
        )
    scheme, host, port = match[1], match[2], match[3]
    is_default = port is None or int(port) == int(_DEFAULT_PORTS[scheme])
    return f"{scheme}://{host}" + ("" if is_default else f":{int(port)}")


def _remedy(text: str) -> str:
    if "*" in text:
        return translatable("name each site whose pages may call the helpers")
    if text.lower() == "null":
        return translatable(
            "pages of files and sandboxed frames have none, so anyone could be one of them"
        )
    if not text.isascii():
        return translatable("write the host as browsers send it, in the form xn--…")
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() in _DEFAULT_PORTS and "/" in rest:
        origin = f"{scheme}://{rest.partition('/')[0]}"
        return translatable("leave out the path: %(origin)s", origin=origin[:200])
    if not separator:
        return translatable("write the scheme, too: %(origin)s", origin=f"https://{text}"[:197])
    return translatable(
        "write scheme, host and port (if it is not the usual one), as https://www.example.com"
    )


def _names(value: Any) -> str:
    return ",".join(dict.fromkeys(re.split(r"[\s,]+", str(value).strip(" ,"))))


def _every(value: Any) -> int:
    text = str(value).strip()
    seconds = int(text) if re.fullmatch(r"[0-9]{1,6}", text, re.ASCII) else 0
    if not 10 <= seconds <= 86_400:
        raise ValueError(
            translatable(
                "%(value)s is not a whole number of seconds from 10 to 86400", value=repr(value)
            )
        )
    return seconds


_OWN_READERS: Mapping[str, Callable[[Any], Any]] = {
    "deadline_s": _deadline,
    "region": _region,
    "language": _language,
    "rotation": lambda value: str(read_rotation(str(value))),
    "allowed_origins": _origins,
    "mirror_properties": _names,
    "mirror_every_s": _every,
}
READERS: Mapping[str, Callable[[Any], Any]] = {
    name: _OWN_READERS.get(name) or (_bool if type is bool else _one_of(*get_args(type)))
    for name, type in get_type_hints(Switches).items()
}
"""The parsers of switch values; they raise ValueError for an invalid value."""
