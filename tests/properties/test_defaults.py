"""What every new account can rely on: names, types and pipelines of the starting catalogue."""

import re

import pytest

from crmhub.properties.defaults import DEFAULT_PIPELINES, DEFAULT_PROPERTIES
from crmhub.properties.values import TYPES, canonical

KINDS = ("contacts", "deals", "companies", "tickets")
ALL = [(kind, spec) for kind in KINDS for spec in DEFAULT_PROPERTIES[kind]]


def named(kind, name):
    return next(spec for spec in DEFAULT_PROPERTIES[kind] if spec.name == name)


def test_each_kind_has_a_catalogue_that_nobody_can_change():
    assert tuple(DEFAULT_PROPERTIES) == KINDS
    with pytest.raises(TypeError):
        DEFAULT_PROPERTIES["contacts"] = ()


def test_the_names_hubspot_users_know_are_there():
    for kind, names in [
        (
            "contacts",
            "firstname lastname email phone mobilephone company jobtitle lifecyclestage "
            "hs_lead_status address city state zip country website",
        ),
        ("deals", "dealname amount dealstage pipeline closedate dealtype description"),
        ("companies", "name domain industry numberofemployees annualrevenue phone website"),
        ("tickets", "subject content hs_pipeline hs_pipeline_stage hs_ticket_priority"),
    ]:
        assert set(names.split()) <= {spec.name for spec in DEFAULT_PROPERTIES[kind]}


def test_a_property_is_named_typed_and_labelled():
    for _, spec in ALL:
        assert re.fullmatch(r"[a-z][a-z0-9_]{0,99}", spec.name)
        assert spec.type in TYPES
        assert spec.label == spec.label.strip() != ""


def test_a_property_has_options_exactly_when_it_is_an_enumeration():
    for kind, spec in ALL:
        choices = bool(spec.options) + bool(spec.options_from)
        assert choices == (spec.type in {"enumeration", "multi_enumeration"})
        assert not spec.options_from or kind in DEFAULT_PIPELINES


def test_each_option_is_a_value_its_property_takes():
    for _, spec in ALL:
        values = [option.value for option in spec.options]
        assert len({value.casefold() for value in values}) == len(values), spec
        assert all(option.label for option in spec.options)
        for value in values:
            assert canonical(spec.type, value, options=spec.options) == value


def test_fields_of_the_record_are_no_properties():
    for _, spec in ALL:
        assert spec.name not in {"id", "createdate", "lastmodifieddate", "hs_object_id"}
        assert spec.name not in {"created_at", "updated_at", "hs_lastmodifieddate"}


def test_a_name_stands_once_in_a_kind():
    for kind in KINDS:
        names = [spec.name for spec in DEFAULT_PROPERTIES[kind]]
        assert len(set(names)) == len(names), kind


def test_only_a_few_properties_are_special():
    for flag in ["required", "unique", "any_case", "read_only"]:
        special = {f"{kind}.{spec.name}" for kind, spec in ALL if getattr(spec, flag)}
        assert (
            special
            == {
                "required": {"deals.dealname", "companies.name", "tickets.subject"},
                "unique": {"contacts.email"},
                "any_case": {"tickets.hs_ticket_priority"},
                "read_only": set(),
            }[flag]
        )


def test_pipelines_and_stages_are_chosen_from_those_of_the_account():
    assert {
        f"{kind}.{spec.name}": spec.options_from for kind, spec in ALL if spec.options_from
    } == {
        "deals.pipeline": "pipelines",
        "deals.dealstage": "stages",
        "tickets.hs_pipeline": "pipelines",
        "tickets.hs_pipeline_stage": "stages",
    }


def test_known_properties_have_the_type_and_values_integrators_send():
    for kind, name, type, values in [
        (
            "contacts",
            "lifecyclestage",
            "enumeration",
            "subscriber lead marketingqualifiedlead salesqualifiedlead opportunity customer "
            "evangelist other",
        ),
        (
            "contacts",
            "hs_lead_status",
            "enumeration",
            "NEW OPEN IN_PROGRESS OPEN_DEAL UNQUALIFIED ATTEMPTED_TO_CONTACT CONNECTED BAD_TIMING",
        ),
        ("deals", "dealtype", "enumeration", "newbusiness existingbusiness"),
        ("deals", "amount", "currency", ""),
        ("deals", "closedate", "datetime", ""),
        ("companies", "type", "enumeration", "PROSPECT PARTNER RESELLER VENDOR OTHER"),
        ("companies", "numberofemployees", "number", ""),
        ("tickets", "hs_ticket_priority", "enumeration", "LOW MEDIUM HIGH URGENT"),
    ]:
        spec = named(kind, name)
        assert spec.type == type
        assert [option.value for option in spec.options] == values.split()


def test_a_ticket_priority_is_taken_in_any_case():
    for given in ["high", "High", "HIGH"]:
        spec = named("tickets", "hs_ticket_priority")
        assert canonical(spec.type, given, options=spec.options, any_case=spec.any_case) == "HIGH"


def test_pipelines_start_with_the_ids_hubspot_gives_them():
    for kind, pipeline, stages, closed in [
        (
            "deals",
            "default",
            "appointmentscheduled qualifiedtobuy presentationscheduled decisionmakerboughtin "
            "contractsent closedwon closedlost",
            "closedwon closedlost",
        ),
        ("tickets", "0", "1 2 3 4", "4"),
    ]:
        [only] = DEFAULT_PIPELINES[kind]
        assert only.id == pipeline
        assert [stage.id for stage in only.stages] == stages.split()
        assert [stage.id for stage in only.stages if stage.closed] == closed.split()


def test_deal_stages_have_a_probability_and_ticket_stages_none():
    [deals] = DEFAULT_PIPELINES["deals"]
    [tickets] = DEFAULT_PIPELINES["tickets"]
    chances = [stage.probability for stage in deals.stages]
    assert chances == ["0.2", "0.4", "0.6", "0.8", "0.9", "1.0", "0.0"]
    assert {stage.probability for stage in tickets.stages} == {""}
