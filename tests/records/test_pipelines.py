"""Pipelines while others write: several processes and threads."""

from __future__ import annotations

import pytest

from crmhub.accounts.accounts import Account
from crmhub.crm import pipeline_stages
from crmhub.errors import Conflict
from crmhub.properties.kinds import DEALS
from crmhub.properties.validation import InvalidProperties
from crmhub.records import pipelines
from crmhub.records.models import NewRecord
from crmhub.records.pipelines import StageInput
from crmhub.records.store import RecordStore
from tests.records.conftest import done_at_once

STAGES = [StageInput(id="open", label="Open"), StageInput(id="done", label="Done", closed=True)]


def create(records: RecordStore, account: Account, **properties: str) -> dict[str, str]:
    [record] = records.create(account, DEALS, [NewRecord({"dealname": "A deal", **properties})])
    return record.properties


def test_a_new_first_stage_is_where_another_process_starts_records(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    pipelines.add(here, account, DEALS, id="own", label="Own", stages=STAGES)
    create(there, account, pipeline="own")
    pipelines.change(here, account, DEALS, "own", stages=STAGES[::-1])
    assert create(there, account, pipeline="own")["dealstage"] == "done"


def test_a_stage_cannot_go_while_somebody_takes_it(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    pipelines.add(here, account, DEALS, id="own", label="Own", stages=STAGES)
    written, changed = done_at_once(
        lambda: create(there, account, dealstage="done"),
        lambda: pipelines.change(here, account, DEALS, "own", stages=STAGES[:1]),
    )
    assert isinstance(written, InvalidProperties) != isinstance(changed, Conflict)


def test_a_pipeline_cannot_go_while_somebody_takes_it(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    pipelines.add(here, account, DEALS, id="own", label="Own", stages=STAGES)
    written, deleted = done_at_once(
        lambda: create(there, account, pipeline="own"),
        lambda: pipelines.delete(here, account, DEALS, "own"),
    )
    assert isinstance(written, InvalidProperties) != isinstance(deleted, Conflict)


def test_of_two_who_delete_the_last_two_pipelines_one_conflicts(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    pipelines.add(here, account, DEALS, id="own", label="Own", stages=STAGES)
    answers = done_at_once(
        lambda: pipelines.delete(here, account, DEALS, "own"),
        lambda: pipelines.delete(there, account, DEALS, "default"),
    )
    assert [type(each) for each in answers].count(Conflict) == 1
    assert len(here.catalogues.reload(account.id, DEALS).pipelines) == 1


def test_pipelines_added_at_the_same_time_all_get_ids_of_their_own(
    here: RecordStore, there: RecordStore, account: Account
) -> None:
    unnamed = [StageInput(label="Open"), StageInput(label="Done")]
    made = done_at_once(
        *(
            lambda records=records: pipelines.add(
                records, account, DEALS, label="Own", stages=unnamed
            )
            for records in (here, there, here, there)
        )
    )
    issued = [id for each in made for id in (each.id, *(stage.id for stage in each.stages))]
    assert len(set(issued)) == 12


def test_the_order_of_pipelines_is_the_order_they_came_in(
    here: RecordStore, account: Account
) -> None:
    for id in ("z", "a", "m"):
        pipelines.add(here, account, DEALS, id=id, label=id, stages=[StageInput(label="Open")])
    pipelines.delete(here, account, DEALS, "a")
    pipelines.add(here, account, DEALS, id="b", label="b", stages=[StageInput(label="Open")])
    known = here.catalogue(account, DEALS).pipelines
    assert [each.id for each in known] == ["default", "z", "m", "b"]


def test_a_stage_id_that_stands_in_two_pipelines_is_counted_in_its_own(
    here: RecordStore, account: Account
) -> None:
    # A bot may name a new pipeline together with a stage that another pipeline has.
    pipeline_stages.make(here, account, DEALS, {"pipeline": "bots", "dealstage": "closedwon"})
    create(here, account, pipeline="default", dealstage="closedwon")
    stages = [StageInput(label="Other")]
    changed = pipelines.change(here, account, DEALS, "bots", stages=stages)
    assert [each.label for each in changed.stages] == ["Other"]
    everything_but = [
        StageInput(id=each.id)
        for each in here.catalogue(account, DEALS).pipelines[0].stages
        if each.id != "closedwon"
    ]
    with pytest.raises(Conflict, match="1 deal is in the stage closedwon"):
        pipelines.change(here, account, DEALS, "default", stages=everything_but)
