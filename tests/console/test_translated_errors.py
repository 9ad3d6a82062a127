"""Refusals and error pages are in the reader's language; JSON stays in English."""

from __future__ import annotations

import re

import flask
import pytest

from crmhub.console.template_filters import translated
from tests.clients import Client
from tests.consoles import Operator, text_of

NO_EMAIL = {
    "en": "'<b>%(x)s' is not an email address; give one such as ops@example.com.",
    "es": "'<b>%(x)s' no es una dirección de correo; indique una como ops@example.com.",
    "pt": "'<b>%(x)s' não é um endereço de e-mail; informe um como ops@example.com.",
}
NO_ACTION = {
    "en": "There is no action act-x.",
    "es": "No hay ninguna acción act-x.",
    "pt": "Não há nenhuma ação act-x.",
}


@pytest.mark.parametrize("language", ["en", "es", "pt"])
def test_a_refused_form_and_an_error_page(operator: Operator, language: str) -> None:
    headers = {"Accept-Language": language, "Accept": "text/html"}
    form = {"email": "<b>%(x)s", "role": "reader"}
    refused = operator.send("/users", form, headers=headers)
    assert refused.status_code == 422
    assert NO_EMAIL[language] in text_of(refused)
    assert "<b>%(x)s" not in refused.text
    missing = operator.get("/activity/act-x", headers=headers)
    assert missing.status_code == 404
    assert NO_ACTION[language] in text_of(missing)
    as_json = operator.get("/activity/act-x", headers=headers | {"Accept": "application/json"})
    assert as_json.json["message"] == NO_ACTION["en"]  # type: ignore[index]


def test_a_fault_stands_at_its_field(operator: Operator, client: Client) -> None:
    path = f"/accounts/{client.account.client_id}/teams"
    headers = {"Accept-Language": "es", "Accept": "text/html"}
    form = {"team": "<b>", "rotation": "round_robin", "owners": "ana@x.org"}
    page = operator.send(path, form, at=path, headers=headers)
    assert page.status_code == 422
    assert re.search(r'id="e-team"[^>]*>\s*Team: indique un nombre de 1 a', page.text)


def test_a_reason_without_words_stays_so(app: flask.Flask) -> None:
    with app.test_request_context("/console", headers={"Accept-Language": "es"}):
        for text in ("", "CRM: ", "CRM: %(x)s", ": "):
            assert translated(text) == text
