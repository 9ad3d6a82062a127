"""Answers of the helpers have their texts for people in the account's language."""

from __future__ import annotations

from typing import Any

import flask
import pytest

from crmhub.operators.teams import change_team
from crmhub.queue.models import as_result
from tests.api.helpers.helper_calls import (
    CREATE_DEAL,
    CREATE_LEAD,
    GET_PROPERTIES,
    SET_PROPERTIES,
    create_lead_answer,
    known,
    lead,
    switch,
)
from tests.clients import TESTS, Client, open_client
from tests.queue.working import rows

BAD_PHONE = '"12" is not a possible phone number; send one such as +12025550123'
REFUSED = {
    "": f"phone: {BAD_PHONE}",
    "en": f"phone: {BAD_PHONE}",
    "de": f"phone: {BAD_PHONE}",
    "es": 'phone: "12" no es un número de teléfono posible; envíe uno como +12025550123',
    "pt": 'phone: "12" não é um número de telefone possível; envie um como +12025550123',
}
FULL = {
    "": "The account's plan is full; this will be tried again until there is room.",
    "es": "El plan de la cuenta está lleno; esto se reintentará hasta que haya espacio.",
    "pt": "O plano da conta está cheio; novas tentativas serão feitas até haver espaço.",
}
BLANK = {
    "": "email: it is blank; send a value",
    "es": "email: está vacío; envíe un valor",
    "pt": "email: está vazio; envie um valor",
}
NO_EMAIL = {
    "": "email: is missing; send a string",
    "es": "email: falta; envíe un texto",
    "pt": "email: falta; envie um texto",
}
ON_DUTY = {
    "": "On duty, next by round robin.",
    "es": "De turno; le toca por orden rotativo.",
    "pt": "De plantão; é a vez por ordem rotativa.",
}


@pytest.mark.parametrize(("language", "message"), REFUSED.items())
def test_a_refused_property(app: flask.Flask, client: Client, language: str, message: str) -> None:
    switch(app, client, language=language)
    answer = create_lead_answer(client, "t", phone="12")
    assert (answer["status"], answer["refused"], answer["message"]) == ("created", "phone", message)


@pytest.mark.parametrize(("language", "message"), FULL.items())
def test_a_queued_lead(app: flask.Flask, language: str, message: str) -> None:
    client = open_client(app, plan="free")
    switch(app, client, language=language)
    app.extensions["crmhub"].database.transact(
        lambda tx: tx.run(
            "update record_count set n = 1000 where account_id = :id and kind = 1",
            {"id": client.account.id},
        )
    )
    answer = lead(client)
    assert (answer.status_code, answer.json["status"]) == (202, "queued")  # type: ignore[index]
    assert answer.json["message"] == message  # type: ignore[index]


@pytest.mark.parametrize("language", ["", "es", "pt"])
def test_a_soft_error_is_translated_and_a_hard_one_is_not(
    app: flask.Flask, client: Client, language: str
) -> None:
    switch(app, client, language=language, soft_errors="true")
    soft = [lead(client, email=email).json for email in ("", None)]
    assert [one["status"] for one in soft] == ["error", "error"]  # type: ignore[index]
    assert [one["message"] for one in soft] == [BLANK[language], NO_EMAIL[language]]  # type: ignore[index]
    assert [one["category"] for one in soft] == ["SemanticError", "BadRequestError"]  # type: ignore[index]
    switch(app, client, soft_errors="false")
    hard = lead(client, email="")
    assert hard.status_code == 422
    assert hard.json["message"] == BLANK[""]  # type: ignore[index]


@pytest.mark.parametrize(("language", "message"), REFUSED.items())
def test_a_repeated_call_gets_the_same_answer(
    app: flask.Flask, client: Client, language: str, message: str
) -> None:
    """The result is stored in English, and translated for each answer."""
    switch(app, client, language=language)
    body = {"contactToken": "t", "name": "Ann Lee", "email": "ann@x.org", "phone": "12"}
    key = {"Idempotency-Key": "one"}
    first = client.helper(CREATE_LEAD, body, headers=key)
    again = client.helper(CREATE_LEAD, body, headers=key)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json == first.json
    assert first.json["message"] == message  # type: ignore[index]
    ((stored,),) = rows(app.extensions["crmhub"], client, "result")
    result: Any = as_result(stored)
    assert result["refused"] == [{"name": "phone", "reason": BAD_PHONE, "options": []}]
    switch(app, client, language="es")
    assert client.helper(CREATE_LEAD, body, headers=key).json["message"] == REFUSED["es"]


def test_the_names_of_missing_properties_stay(app: flask.Flask, client: Client) -> None:
    known(client)
    switch(app, client, language="es")
    body = {"contactToken": "t", "props": ["email", "sign", "status", "{{x}}"]}
    answer: Any = client.helper(GET_PROPERTIES, body).json
    assert answer["missing"] == "sign,status"
    assert answer["refused"] == "{{x}}"
    assert answer["message"] == (
        "status: lea el valor en properties (Chatfuel, Manychat: prop_status). {{x}}: el"
        " constructor envió {{x}} en lugar de su valor; revise el nombre de la variable"
    )


def test_errors_of_the_hub_s_own_records_and_of_ids(app: flask.Flask, client: Client) -> None:
    contact_id = known(client)
    switch(app, client, language="es", soft_errors="true")
    sent = {"contactToken": "t", "props": {"createdate": "2020-01-01"}}
    own: Any = client.helper(SET_PROPERTIES, sent).json
    assert own["message"] == (
        "createdate: un campo del registro que completa el propio hub; no lo envíe"
    )
    deal = {"contactId": f"{contact_id}0", "properties": {"dealname": "Cake"}}
    unknown: Any = client.helper(CREATE_DEAL, deal).json
    assert unknown["message"].startswith(f"contactId: no hay ningún contacto {contact_id}0; envíe")


@pytest.mark.parametrize(("language", "reason"), ON_DUTY.items())
def test_the_reason_of_an_owner(app: flask.Flask, language: str, reason: str) -> None:
    client = open_client(app)
    hub = app.extensions["crmhub"]
    client_id = client.account.client_id
    change_team.set_team(hub, client_id, "Sales", members=["Eva <eva@x.org>"], by=TESTS)
    contact_id = known(client)
    switch(app, client, language=language)
    body = {"contactId": contact_id}
    path = "/crm-api-interface/assignOwner/{portal}"
    assert client.helper(path, body).json["reason"] == reason
