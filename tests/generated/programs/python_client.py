# ruff: noqa: T201 (what it prints is what the test compares)
"""Uses the client that openapi-python-client makes; also checked by mypy --strict."""

import os
from typing import TypeVar

from crmhub_api_client import AuthenticatedClient, Client
from crmhub_api_client.api.chatbot import (
    create_lead,
    get_properties_of_account,
    get_type,
    set_properties_of_account,
)
from crmhub_api_client.api.contacts import (
    create_batch_of_contacts,
    create_contact,
    list_contacts,
    search_contacts,
    upsert_batch_of_contacts,
)
from crmhub_api_client.api.functions import (
    create_deal_for_contact,
    create_ticket_for_contact,
    get_random_int,
)
from crmhub_api_client.models import (
    Contact,
    ContactAnswer,
    ContactBatchCreate,
    ContactBatchUpsert,
    ContactInput,
    ContactPage,
    ContactSearch,
    DealAnswer,
    Error,
    Filter,
    FilterOperator,
    GetPropertiesInput,
    GetTypeInput,
    LeadAnswer,
    LeadInput,
    ListSortField,
    NewForContactInput,
    NumberAnswer,
    PropertiesAnswer,
    RandomIntInput,
    SetPropertiesInput,
    SortField,
    SortOrder,
    TicketAnswer,
    WorkflowAnswer,
)

T = TypeVar("T")
URL = os.environ["CRMHUB_URL"]
ACCOUNT = os.environ["CRMHUB_CLIENT_ID"]


def the(kind: type[T], answer: object) -> T:
    assert isinstance(answer, kind), answer
    return answer


def api() -> None:
    client = AuthenticatedClient(
        URL, token=os.environ["CRMHUB_KEY"], prefix="", auth_header_name="service-apikey"
    )
    properties = {"email": "ada@example.com", "firstname": "Ada"}
    body = ContactInput.from_dict({"properties": properties})
    created = the(Contact, create_contact.sync(ACCOUNT, client=client, body=body))
    print("created", created.id > 0, created.properties["email"])

    refused = create_contact.sync_detailed(ACCOUNT, client=client, body=body)
    print("refused", refused.status_code.value, the(Error, refused.parsed).category.value)

    people = [{"email": f"{name}@example.com", "firstname": name} for name in "abc"]
    batch = ContactBatchCreate.from_dict({"inputs": [{"properties": each} for each in people]})
    print(
        "batch", len(the(list, create_batch_of_contacts.sync(ACCOUNT, client=client, body=batch)))
    )

    changes = [("ada@example.com", {"jobtitle": "Programmer"}), ("emmy@example.com", {"city": "X"})]
    upsert = ContactBatchUpsert.from_dict(
        {
            "inputs": [
                {"idProperty": "email", "id": email, "properties": each} for email, each in changes
            ]
        }
    )
    done = upsert_batch_of_contacts.sync(ACCOUNT, client=client, body=upsert)
    assert isinstance(done, list)
    print("upserted", *(each.new for each in done))

    page = the(
        ContactPage,
        list_contacts.sync(
            ACCOUNT, client=client, limit=2, sort=ListSortField.CREATEDAT, order=SortOrder.ASC
        ),
    )
    ids = [each.id for each in page.results]
    while page.has_more:
        found = list_contacts.sync(ACCOUNT, client=client, cursor=page.cursor.next_)
        page = the(ContactPage, found)
        ids += [each.id for each in page.results]
    print("walked", len(ids), len(set(ids)))

    search = ContactSearch([Filter("email", FilterOperator.CONTAINS_TOKEN, value="example")])
    matching = search_contacts.sync(
        ACCOUNT,
        client=client,
        body=search,
        limit=1,
        sort=SortField.CREATEDAT,
        order=SortOrder.DESC,
    )
    page = the(ContactPage, matching)
    print("found", page.total, page.results[0].properties["email"])


def helpers() -> None:
    client = Client(URL)
    generated, portal = os.environ["CRMHUB_GENERATED_ID"], os.environ["CRMHUB_PORTAL_ID"]
    token, phone = "chat-17", "+1 202-555-0188"
    lead = LeadInput(token, "Katherine Johnson", "kj@example.com", phone=phone)
    contact = the(LeadAnswer, create_lead.sync(generated, client=client, body=lead))
    changes = SetPropertiesInput.from_dict({"contactToken": token, "props": {"city": "Hampton"}})
    deal = NewForContactInput.from_dict(
        {"contactId": contact.contact_id, "properties": {"dealname": "A first order"}}
    )
    ticket = NewForContactInput.from_dict(
        {"contactId": contact.contact_id, "properties": {"subject": "A question"}}
    )
    answers = (
        contact,
        the(ContactAnswer, set_properties_of_account.sync(generated, client=client, body=changes)),
        the(
            PropertiesAnswer,
            get_properties_of_account.sync(
                generated, client=client, body=GetPropertiesInput(token, ["city"])
            ),
        ),
        the(
            WorkflowAnswer,
            get_type.sync(generated, client=client, body=GetTypeInput(phone, 48, 0)),
        ),
        the(NumberAnswer, get_random_int.sync(client=client, body=RandomIntInput(1, 3))),
        the(DealAnswer, create_deal_for_contact.sync(portal, client=client, body=deal)),
        the(TicketAnswer, create_ticket_for_contact.sync(portal, client=client, body=ticket)),
    )
    for answer in answers:
        print("helper", answer.status.value)


api()
helpers()
