"""SQLite's index for parts of texts: what is behind is found too, and what is deleted goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crmhub.app import create_app
from crmhub.database import part_indexes
from crmhub.database.connection import Database
from crmhub.errors import Semantic, Unavailable
from crmhub.hub import Hub
from crmhub.operators.erasure import erase_person
from crmhub.operators.erasure.erasure import Erased
from crmhub.properties.kinds import CONTACTS
from crmhub.records import text_parts
from crmhub.records.search import conditions
from tests.clients import TESTS, Client, open_client
from tests.databases import new_settings, sqlite_database
from tests.queue.working import soon, working


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A caller of a database of its own, whose properties are all worth an index."""
    monkeypatch.setattr(conditions, "FEW_VALUES", 1)
    monkeypatch.setattr(text_parts, "FEW_VALUES", 1)
    app = create_app(new_settings(sqlite_database(tmp_path), tmp_path))
    yield open_client(app)
    app.extensions["crmhub"].close()


def found(client: Client, part: str, name: str = "lastname") -> list[int]:
    one = {"propertyName": name, "operator": "CONTAINS_TOKEN", "value": part}
    answer = client.post("/contacts/search", {"filters": [one]}).get_json()
    assert answer["total"] == len(answer["results"])
    return sorted(each["id"] for each in answer["results"])


def index_finds(client: Client, part: str, name: str = "lastname") -> bool:
    """Whether a search would look the part up in the index."""
    known = client.hub.records.catalogue(client.account, CONTACTS).get(name)
    assert known is not None
    with client.hub.database.reading() as connection:
        of = (connection, client.account.id, CONTACTS.code, known.prop_id)
        return text_parts.find_set(*of, part) is not None


def test_what_is_written_is_found_before_and_after_it_is_indexed(client: Client) -> None:
    ada, bob = client.make(lastname="Lovelace"), client.make(lastname="Babbage")
    assert not index_finds(client, "bba")
    assert found(client, "bba") == [bob]
    assert text_parts.fill(client.hub.database) == 0
    assert index_finds(client, "bba")
    assert found(client, "BBA") == [bob]
    client.patch(f"/contacts/{bob}", {"properties": {"lastname": "Lovejoy"}})
    assert found(client, "bba") == []
    assert found(client, "love") == [ada, bob]
    client.delete(f"/contacts/{ada}")
    assert found(client, "love") == [bob]
    text_parts.fill(client.hub.database)
    assert found(client, "love") == [bob]


def test_the_worker_fills_it(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crmhub.worker._PAUSE_S", 0.05)
    client.make(lastname="Lovelace")
    client.make(lastname="Babbage")
    with working(client.hub, threads=1):
        soon(lambda: index_finds(client, "bba") and not left_behind(client.hub))
    assert texts(client.hub) == {"lovelace", "babbage"}


def left_behind(hub: Hub) -> int:
    with hub.database.reading() as connection:
        return int(connection.scalar("select count(*) from text_part_behind"))


def test_long_documents_are_indexed_a_few_at_a_time(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [client.make(lastname=f"Lovelace {n} " + "x" * 1000) for n in range(4)]
    monkeypatch.setattr(text_parts, "_CHARACTERS", 1500)
    assert text_parts.fill(client.hub.database, seconds=0) == 2
    assert text_parts.fill(client.hub.database) == 0
    assert found(client, "love") == made


def test_while_many_are_behind_all_texts_are_read(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [client.make(lastname=f"Lovelace {n}") for n in range(3)]
    text_parts.fill(client.hub.database)
    monkeypatch.setattr(text_parts, "_MOST_BEHIND", 2)
    made += [client.make(lastname="Lovelace")]
    assert index_finds(client, "love")
    made += [client.make(lastname="Lovelace")]
    assert not index_finds(client, "love")
    assert found(client, "love") == made


def test_a_property_is_indexed_once_it_has_many_values(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conditions, "FEW_VALUES", 2)
    monkeypatch.setattr(text_parts, "FEW_VALUES", 2)
    made = [client.make(lastname=name) for name in ("Lovelace", "Loveday")]
    text_parts.fill(client.hub.database)
    assert not index_finds(client, "love")
    made += [client.make(lastname="Lovejoy")]
    while text_parts.fill(client.hub.database):
        pass
    assert index_finds(client, "love")
    assert found(client, "love") == made


def test_the_values_of_a_deleted_property_leave_the_index(client: Client) -> None:
    client.post("/properties/contacts", {"name": "nickname", "label": "Nickname", "type": "string"})
    for n in range(3):
        client.make(nickname=f"Countess {n}")
    text_parts.fill(client.hub.database)
    assert texts(client.hub) == {"countess 0", "countess 1", "countess 2"}
    assert client.delete("/properties/contacts/nickname?force=true").status_code == 204
    text_parts.fill(client.hub.database)
    assert texts(client.hub) == set()


def texts(hub: Hub) -> set[str]:
    with hub.database.reading() as connection:
        return {text for (text,) in connection.rows("select folded from text_part")}


def erase(client: Client, part: str) -> Erased:
    hub = client.hub
    person, _ = erase_person.find(hub, client.account, str(found(client, part)[0]))
    assert person is not None
    return erase_person.erase(hub, client.account, person, by=TESTS)


def blocks(hub: Hub) -> bytes:
    """The index itself, with what is only marked as deleted; terms share their beginnings."""
    with hub.database.reading() as connection:
        return b"".join(block for (block,) in connection.rows("select block from text_part_data"))


@pytest.fixture
def planted(client: Client) -> Client:
    """A caller with a contact whose last name begins like no other text."""
    for name in ("Zqxjvw", "Babbage", "Menabrea"):
        client.make(firstname="Ada", lastname=name)
    text_parts.fill(client.hub.database)
    assert b"zqx" in blocks(client.hub)
    return client


def test_nothing_of_an_erased_person_is_left_in_the_index(planted: Client) -> None:
    assert erase(planted, "zqx").swept
    assert texts(planted.hub) == {"babbage", "menabrea"}
    assert b"zqx" not in blocks(planted.hub)


def test_an_index_of_many_levels_is_made_again_instead(
    planted: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_parts, "_MOST_LEVELS", -1)
    assert erase(planted, "zqx").swept
    assert b"zqx" not in blocks(planted.hub)
    assert left_behind(planted.hub) == 2
    assert len(found(planted, "bba")) == 1
    assert text_parts.fill(planted.hub.database) == 0
    assert len(found(planted, "bba")) == 1


def test_a_purge_that_fails_is_made_up_for(
    planted: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise Unavailable("The disk is full.")

    with monkeypatch.context() as patch:
        patch.setattr(text_parts, "_purge", full)
        assert not erase(planted, "zqx").swept
        assert b"zqx" in blocks(planted.hub)
    text_parts.fill(planted.hub.database)
    assert b"zqx" not in blocks(planted.hub)


def test_a_purge_ends_while_others_write(planted: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    fill_some = text_parts._fill_some

    def and_write(*of: Any, **more: Any) -> int | None:
        planted.make(lastname="Lovelace")
        return fill_some(*of, **more)

    monkeypatch.setattr(text_parts, "_fill_some", and_write)
    assert erase(planted, "zqx").swept
    assert b"zqx" not in blocks(planted.hub)
    assert left_behind(planted.hub)


def test_a_number_never_means_the_texts_of_another_property(planted: Client) -> None:
    def sets() -> set[Any]:
        with planted.hub.database.reading() as connection:
            return set(connection.rows("select number, prop_id from text_part_set"))

    before = sets()
    part_indexes.drop(planted.hub.database)
    part_indexes.build(planted.hub.database)
    text_parts.fill(planted.hub.database)
    assert sets() == before


def test_without_fts5_nobody_says_that_the_index_was_purged(
    planted: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(part_indexes, "_MODULE", "select 1 where false")
        assert not erase(planted, "zqx").swept
    assert text_parts.purge(planted.hub.database)
    assert b"zqx" not in blocks(planted.hub)


def test_a_search_that_meets_the_removal_of_the_index_is_503(
    planted: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    find_set = text_parts.find_set

    def find_and_remove(*of: Any) -> int | None:
        number = find_set(*of)
        part_indexes.drop(planted.hub.database)
        return number

    monkeypatch.setattr(text_parts, "find_set", find_and_remove)
    one = {"propertyName": "lastname", "operator": "CONTAINS_TOKEN", "value": "bba"}
    assert planted.post("/contacts/search", {"filters": [one]}).status_code == 503


def test_a_value_spoilt_by_hand_keeps_no_other_from_the_index(client: Client) -> None:
    made = [client.make(firstname=f"Ada {n}", lastname=f"Lovelace {n}") for n in range(3)]
    with client.hub.database.reading() as connection:
        connection.run(
            "update records set properties = json_set(properties, '$.firstname', 5)"
            f" where account_id = {client.account.id} and id = {made[0]}"
        )
    text_parts.fill(client.hub.database)
    assert index_finds(client, "love")
    assert found(client, "love") == made


def test_it_is_made_and_removed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Database(sqlite_database(tmp_path), pool_size=1)) as database:
        assert not part_indexes.build(database)
        assert part_indexes.drop(database)
        assert not part_indexes.drop(database)
        with monkeypatch.context() as patch:
            patch.setattr(part_indexes, "_MODULE", "select 1 where false")
            with pytest.raises(Semantic, match="is built without FTS5"):
                part_indexes.build(database)
        assert text_parts.fill(database) == 0
        assert text_parts.purge(database)
        assert part_indexes.build(database)


def test_what_was_stored_without_it_is_indexed_later(client: Client) -> None:
    part_indexes.drop(client.hub.database)
    made = [client.make(lastname=name) for name in ("Lovelace", "Loveday")]
    assert found(client, "love") == made
    part_indexes.build(client.hub.database)
    assert found(client, "love") == made
    text_parts.fill(client.hub.database)
    assert index_finds(client, "love")
    assert found(client, "love") == made
