"""The console speaks English, Spanish and Portuguese: what the profile says, else the browser."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po

from crmhub.hub import Hub
from tests.clients import Client
from tests.console.past import HOUR, put
from tests.consoles import Operator, fault_of, text_of

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "crmhub" / "console" / "templates"
LANGUAGES = ("es", "pt")
MAKEFILE = (ROOT / "Makefile").read_text()
(NAMED,) = re.findall(r"TEXTS := \$\(addprefix -k ,([^)]+)\)", MAKEFILE)
KEYWORDS = dict.fromkeys(("_", "gettext", *NAMED.replace("\\", "").split()))
KEYWORDS["ngettext"] = (1, 2)
KEYWORDS["pgettext"] = ((1, "c"), 2)
# What templates hold beside texts: comments, statements, what is put in, and code for people.
JINJA = re.compile(r"\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL)
TRANSLATED = re.compile(r"\{%-?\s*trans\b.*?endtrans\s*-?%\}", re.DOTALL)
CODE = re.compile(r"<(code|pre|script|style)\b.*?</\1>", re.DOTALL)
TAG = re.compile(r"<[^>]*>")
# The attributes of an element, and a class, which macros make.
ATTRIBUTES = re.compile(r'[\w-]+="[^"]*"|\b(?:autofocus|is-invalid)\b')
# What `ngettext` says of several, or `pgettext` in a context: its first text follows a bracket.
SEVERAL = re.compile(r'\b[np]gettext\("[^"]*", "[^"]*"')
ATTRIBUTE = re.compile(r'\b(?:title|aria-label|placeholder|alt|data-label)="([^"]*)"')
# A text in a statement of a template: the argument of a macro, which is meant for people.
ARGUMENT = re.compile(r'(?<![\w("])"([A-Z][a-z]+(?: [^"]*)?|[^"]* [^"]* [^"]*[.?!])"')
WORD = re.compile(r"[A-Za-z]{2,}")
NAMES = {"crmhub", "UTC", "CSV", "CRM", "API", "URL", "JSON", "ID", "HTTP", "nbsp", "kB", "OK"}
PLACEHOLDER = re.compile(r"%\((\w+)\)[sd]")
TAGS = re.compile(r"</?\w+")


@cache
def texts() -> dict[str, tuple[str, ...]]:
    """Return the texts of templates and modules: msgid, and what it says of several."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["babel"]
    methods, options = [], {}
    for mapping in tool["mappings"]:
        method, given = mapping.pop("method"), mapping.pop("pattern")
        for pattern in [given] if isinstance(given, str) else given:
            methods.append((pattern, method))
            options[pattern] = mapping
    found = extract_from_dir(ROOT, methods, options, keywords=KEYWORDS)
    messages = [(one,) if isinstance(one, str) else tuple(one) for _, _, one, _, _ in found]
    return {one[0]: one for one in messages}


def catalogue(language: str) -> Catalog:
    path = ROOT / "crmhub" / "translations" / language / "LC_MESSAGES" / "messages.po"
    with path.open("rb") as file:
        return read_po(file, locale=language)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_has_each_text_and_no_other(language: str) -> None:
    given = {one.id if isinstance(one.id, str) else one.id[0]: one for one in catalogue(language)}
    given.pop("")
    assert sorted(texts().keys() - given.keys()) == [], "make translations adds them"
    assert sorted(given.keys() - texts().keys()) == [], "make translations removes them"
    said = {name: [one.string] if one.string else [] for name, one in given.items()}
    said |= {name: list(one.string) for name, one in given.items() if one.pluralizable}
    assert [name for name, all in said.items() if not all or "" in all] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_translation_has_the_values_and_the_elements_of_its_text(language: str) -> None:
    wrong = []
    for one in (one for one in catalogue(language) if one.id):
        ids = [one.id] if isinstance(one.id, str) else list(one.id)
        strings = [one.string] if isinstance(one.string, str) else list(one.string)
        for form in (PLACEHOLDER, TAGS):
            wanted = {tuple(sorted(form.findall(text))) for text in ids}
            wrong += [
                text for text in strings if text and tuple(sorted(form.findall(text))) not in wanted
            ]
    assert wrong == []


# What a catalogue says of one thing, and not in another way.
OTHER_WORDS = {
    "es": r"habilit|\bunión\b|\bunid[oa]s\b|\b[Aa]justes\b|\bflujo|plataforma env|«|\bclient id %",
    "pt": r"\bhabilit|\b[Ss]olicitaç|\bguardad|\bfluxo\b| (?:de|em) %\(crm\)s|\bclient id %",
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_catalogue_has_one_word_for_one_thing(language: str) -> None:
    strings = [one.string for one in catalogue(language) if one.id]
    said = [text for one in strings for text in ([one] if isinstance(one, str) else one)]
    assert [text for text in said if re.search(OTHER_WORDS[language], text)] == []


def loose_words(template: str) -> list[str]:
    """Return the words of a template that no catalogue can translate."""
    bare = CODE.sub(" ", TRANSLATED.sub(" ", re.sub(r"\{#.*?#\}", " ", template, flags=re.DOTALL)))
    parts = [SEVERAL.sub("", part) for part in JINJA.findall(bare)]
    arguments = [text for part in parts for text in ARGUMENT.findall(part)]
    bare = JINJA.sub(" ", bare)
    shown = [ATTRIBUTES.sub(" ", TAG.sub(" ", bare)), *ATTRIBUTE.findall(bare), *arguments]
    return [word for text in shown for word in WORD.findall(text) if word not in NAMES]


@pytest.mark.parametrize(
    "path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: str(path.relative_to(TEMPLATES))
)
def test_each_word_of_a_template_can_be_translated(path: Path) -> None:
    assert loose_words(path.read_text()) == []


def test_the_browser_decides_unless_the_profile_does(operator: Operator) -> None:
    def language(wanted: str) -> str:
        page = operator.get("/profile", headers={"Accept-Language": wanted})
        (found,) = re.findall(r'<html lang="(\w+)"', page.text)
        return found

    wanted = ("es-MX,en;q=0.5", "pt-BR", "de", "")
    assert [language(one) for one in wanted] == ["es", "pt", "en", "en"]
    operator.send("/profile/preferences", {"language": "pt", "timeZone": ""}, at="/profile")
    assert language("es") == "pt"
    assert "Sair" in text_of(operator.get("/profile"))
    refused = operator.send("/profile/preferences", {"language": "xx"}, at="/profile")
    assert refused.status_code == 422
    operator.send("/profile/preferences", {"language": "", "timeZone": ""}, at="/profile")
    assert language("es") == "es"


def test_errors_are_in_the_language_of_the_page(operator: Operator) -> None:
    spanish = {"Accept-Language": "es"}
    unknown = text_of(operator.get("/nothing", headers=spanish))
    assert "Página no encontrada Verifique la dirección." in unknown
    unsigned = operator.open("POST", "/profile/preferences", headers=spanish)
    assert "Este formulario pertenece a otra sesión." in text_of(unsigned)
    invited = {"email": "ops@example.com", "role": "boss"}
    refused = operator.send("/users", invited, headers=spanish)
    assert "No existe el rol 'boss'; elija entre owner," in fault_of(refused, "role")


def test_json_stays_english(operator: Operator) -> None:
    asked = {"Accept-Language": "es", "Accept": "application/json"}
    answer = operator.open("POST", "/profile/preferences", headers=asked)
    assert answer.get_json()["message"].startswith("This form belongs to another session.")


def test_macros_speak_the_language_of_each_reader(operator: Operator) -> None:
    def words(page: str, language: str) -> str:
        return text_of(operator.get(page, headers={"Accept-Language": language}))

    wanted = {"es": "El motivo contiene", "en": "Reason contains", "pt": "O motivo contém"}
    for language, label in wanted.items():
        assert label in words("/activity", language)
        assert ("5,000" in words("/activity", language)) == (language == "en")


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "es",
            {
                "": "Plan y uso",
                "/crm": "Los leads se guardan",
                "/field-map": "Aún no hay reglas",
                "/bots": "URL de los webhooks",
                "/teams": "No hay equipos",
                "/keys": "Crear clave",
                "/properties": "propiedades",
                "/events": "No hay suscripciones",
                "/imports": "Importar un archivo CSV",
                "/duplicates": "No hay posibles duplicados",
            },
        ),
        (
            "pt",
            {
                "": "Plano e uso",
                "/field-map": "Ainda não há regras",
                "/teams": "Nenhuma equipe",
                "/imports": "Importar um arquivo CSV",
                "/duplicates": "Nenhum possível duplicado",
            },
        ),
    ],
    ids=LANGUAGES,
)
def test_the_pages_of_an_account_speak_the_language_of_the_reader(
    operator: Operator, client: Client, language: str, words: dict[str, str]
) -> None:
    account = f"/accounts/{client.account.client_id}"
    for path, said in words.items():
        page = operator.get(f"{account}{path}", headers={"Accept-Language": language})
        assert said.casefold() in text_of(page).casefold(), path


def test_the_form_of_a_crm_speaks_the_language_of_the_reader(
    operator: Operator, client: Client
) -> None:
    page = f"/accounts/{client.account.client_id}/crm?adapter=hubspot"
    said = text_of(operator.get(page, headers={"Accept-Language": "es"}))
    for text in ("Token de acceso", "Con el botón Conectar", "De una clave de servicio"):
        assert text in said
    assert "Access token" in text_of(operator.get(page))


def test_a_failed_call_is_counted_in_the_language_of_the_reader(
    operator: Operator, hub: Hub, client: Client
) -> None:
    put(hub, client.account, (HOUR, HOUR, "dead"))
    for page in (
        f"/accounts?q={client.account.client_id}",
        f"/accounts/{client.account.client_id}",
    ):
        assert "1 fallida" in text_of(operator.get(page, headers={"Accept-Language": "es"}))
