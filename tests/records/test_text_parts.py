"""SQLite's index for parts of texts: what is behind is found too, and what is deleted goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crmhub.app import create_app
from crmhub.database import part_indexes
from crmhub.database.connection import Database
from crmhub.errors import Semantic
from crmhub.hub import Hub
from crmhub.operators.erasure import erase_person
from crmhub.properties.kinds import CONTACTS
from crmhub.records import text_parts
from crmhub.records.search import conditions
from tests.clients import TESTS, Client, open_client
from tests.databases import new_settings, sqlite_database
from tests.queue.working import soon, working

_TERMS = "create virtual table temp.terms using fts5vocab('main', 'text_part', 'row')"


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
    client.make(lastname="Lovelace"), client.make(lastname="Babbage")
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


def test_nothing_of_an_erased_person_is_left_in_the_index(client: Client) -> None:
    hub = client.hub
    for name in ("Lovelace", "Babbage", "Menabrea"):
        client.make(firstname="Ada", lastname=name)
    text_parts.fill(hub.database)
    assert {"ovelace"[n : n + 3] for n in range(5)} <= terms(hub)
    person, _ = erase_person.find(hub, client.account, str(found(client, "love")[0]))
    assert person is not None
    erase_person.erase(hub, client.account, person, by=TESTS)
    assert texts(hub) == {"babbage", "menabrea"}
    assert not {"lov", "ove", "vel", "ela", "lac", "ace"} & terms(hub)


def terms(hub: Hub) -> set[str]:
    with hub.database.reading() as connection:
        connection.run(_TERMS)
        found = {term for (term,) in connection.rows("select term from temp.terms")}
        connection.run("drop table temp.terms")
    return found


def test_it_is_made_and_removed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Database(sqlite_database(tmp_path), pool_size=1)) as database:
        assert not part_indexes.build(database)
        assert part_indexes.drop(database)
        assert not part_indexes.drop(database)
        with monkeypatch.context() as patch:
            patch.setattr(part_indexes, "_LEAST_SQLITE", (99,))
            with pytest.raises(Semantic, match="has no FTS5 with trigrams"):
                part_indexes.build(database)
        assert text_parts.fill(database) == 0
        text_parts.purge(database)
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
