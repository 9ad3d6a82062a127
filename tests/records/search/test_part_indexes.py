"""The indexes for parts of texts: each finds the same records as a plain scan."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from crmhub.app import create_app
from crmhub.bounds import MAX_PART_LENGTH
from crmhub.database import part_indexes
from crmhub.database.connection import Database
from crmhub.errors import Conflict, Semantic
from crmhub.properties.kinds import CONTACTS
from crmhub.records import text_parts
from crmhub.records.search import conditions, contains, filters
from crmhub.records.search.filters import Filter
from crmhub.secrets import BASE36, token
from tests import databases
from tests.clients import Client, open_client
from tests.databases import new_settings, sqlite_database
from tests.pages import walk
from tests.records.search.made_up import TRICKY
from tests.records.search.oracle import folded

PROPERTY = "jobtitle"


@contextmanager
def caller(url: str, root: Path) -> Iterator[Client]:
    app = create_app(new_settings(url, root))
    yield open_client(app)
    app.extensions["crmhub"].close()


@pytest.fixture(scope="module")
def postgresql_url() -> Iterator[str]:
    """A PostgreSQL database of our own."""
    if reason := databases.left_out("postgresql"):
        pytest.skip(f"PostgreSQL left out: {reason}")
    with databases.postgresql_database() as url:
        yield url


@pytest.fixture
def database(postgresql_url: str) -> Iterator[Database]:
    """Without the index of trigrams."""
    with closing(Database(postgresql_url, pool_size=4)) as database:
        part_indexes.drop(database)
        yield database


@pytest.fixture(scope="module", params=[part_indexes.TRIGRAMS, part_indexes.OTHERS, "sqlite"])
def searcher(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Client]:
    """A caller whose searches use this index for every part that it can serve."""
    root = tmp_path_factory.mktemp("parts")
    if request.param == "sqlite":
        with pytest.MonkeyPatch.context() as patch, caller(sqlite_database(root), root) as client:
            patch.setattr(conditions, "FEW_VALUES", -1)
            patch.setattr(text_parts, "FEW_VALUES", -1)
            find_set, looked_up = text_parts.find_set, list[int | None]()

            def noting(*of: Any) -> int | None:
                looked_up.append(find_set(*of))
                return looked_up[-1]

            patch.setattr(text_parts, "find_set", noting)
            yield client
        assert any(looked_up)
        return
    if reason := databases.left_out("postgresql"):
        pytest.skip(f"PostgreSQL left out: {reason}")
    with databases.postgresql_database() as url, pytest.MonkeyPatch.context() as patch:
        # Otherwise the few values of the test are read at once.
        patch.setattr(conditions, "FEW_VALUES", -1)
        # Parts of an even length are taken for common: counted, and found by a walk.
        scans = request.param == part_indexes.OTHERS
        patch.setattr(contains.StoredTexts, "is_common", lambda *of: scans and len(of[-1]) % 2 == 0)
        with closing(Database(url, pool_size=2)) as database, database.reading() as connection:
            if request.param == part_indexes.TRIGRAMS:
                connection.run("alter table ix_text drop constraint ix_text_pkey")
            else:
                assert part_indexes.drop(database)
            name = connection.scalar("select current_database()")
            connection.run(f"alter database {name} set enable_seqscan = off")
        with caller(url, root) as client:
            yield client
        with closing(Database(url, pool_size=1)) as database, database.reading() as connection:
            known = "select idx_scan from pg_stat_user_indexes where indexrelname = :name"
            end = time.monotonic() + 120
            # The server tells of it when the last connection has ended.
            while not connection.scalar(known, {"name": request.param}):
                assert time.monotonic() < end
                time.sleep(0.1)


letters = st.sampled_from([*TRICKY, *"abcxyz019"])
words = st.lists(letters, min_size=1, max_size=12).map("".join)
texts = st.one_of(words, st.builds(lambda a, b: a + b * 30, words, words))


@st.composite
def parts(draw: st.DrawFn, held: Sequence[str]) -> str:
    """Give a part of one of the texts (of 1 or 2 characters, or long), or any other text."""
    text = draw(st.sampled_from(held))
    start = draw(st.integers(0, len(text) - 1))
    size = draw(st.sampled_from([1, 2, 3, 4, 8, 16, 17, 101, MAX_PART_LENGTH]))
    part = draw(st.one_of(st.just(text[start : start + size]), words))
    # Some letters have several capital ones.
    return draw(st.sampled_from([part, part.swapcase(), part.upper()]))[:MAX_PART_LENGTH]


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=set(Phase) - {Phase.shrink, Phase.explain},
)
@given(data=st.data())
def test_the_same_is_found_through_the_index(searcher: Client, data: st.DataObject) -> None:
    sent = data.draw(st.lists(texts, min_size=8, max_size=8))
    inputs = [{"properties": {"firstname": "Ada", PROPERTY: each}} for each in sent]
    made = searcher.post("/contacts/batch/create", {"inputs": inputs}).get_json()
    if data.draw(st.booleans()):
        text_parts.fill(searcher.hub.database)
        some = data.draw(st.lists(texts, max_size=4))
        changed = [
            {"id": each["id"], "properties": {PROPERTY: text}}
            for each, text in zip(made, some, strict=False)
        ]
        if changed:
            sent += some
            made[: len(some)] = searcher.post(
                "/contacts/batch/update", {"inputs": changed}
            ).get_json()
        if data.draw(st.booleans()):
            text_parts.fill(searcher.hub.database)
    held = {each["id"]: each["properties"].get(PROPERTY) or "" for each in made}
    for part in data.draw(st.lists(parts(sent), min_size=8, max_size=8)):
        expected = {id for id, text in held.items() if folded(part) in folded(text)}
        for operator, ids in (
            ("CONTAINS_TOKEN", expected),
            ("NOT_CONTAINS_TOKEN", held.keys() - expected),
        ):
            one = {"propertyName": PROPERTY, "operator": operator, "value": part}
            found = walk(searcher, "/contacts/search", {"filters": [one]})
            assert {each["id"] for each in found} == ids, (operator, part)
    gone = {"inputs": [{"id": id} for id in held]}
    assert searcher.post("/contacts/batch/archive", gone).status_code == 204


def test_the_planner_takes_the_index(
    postgresql_url: str, database: Database, tmp_path: Path
) -> None:
    with caller(postgresql_url, tmp_path) as client:
        catalogue = client.hub.records.catalogue(client.account, CONTACTS)
        known = catalogue.get(PROPERTY)
        assert known is not None

        def plan(part: str) -> str:
            condition = filters.parse(
                [Filter(PROPERTY, "CONTAINS_TOKEN", part)], catalogue, region=""
            )[0]
            with database.reading() as connection:
                sql = condition.ids(connection, 0)
                of = {"account": client.account.id, **sql.params}
                return str(connection.rows(f"explain {sql.text}", of))

        with database.reading() as connection:
            connection.run(
                "insert into ix_text select :account, :prop, 'Person ' || md5(n::text), n, null,"
                " 'person ' || md5(n::text) from generate_series(1, 20000) as n",
                {"account": client.account.id, "prop": known.prop_id},
            )
            connection.run("analyze ix_text")
        assert part_indexes.TRIGRAMS not in plan("C4CA42")
        part_indexes.build(database)
        assert part_indexes.TRIGRAMS in plan("C4CA42")
        assert part_indexes.TRIGRAMS in plan(f"{'- ' * 50}C4CA42{'x' * 90}")
        for nothing_to_look_up in ("c4", "a b", "--- -", "- " * 50):
            assert part_indexes.TRIGRAMS not in plan(nothing_to_look_up)


def test_it_is_made_once_and_a_broken_one_again(database: Database) -> None:
    assert part_indexes.build(database)
    assert not part_indexes.build(database)
    with database.reading() as connection:
        connection.run(
            "update pg_index set indisvalid = false"
            " where indexrelid = cast('ix_text_trigram' as regclass)"
        )
    assert part_indexes.build(database)
    assert not part_indexes.build(database)
    assert part_indexes.drop(database)
    assert not part_indexes.drop(database)


def test_others_write_while_it_is_built_and_none_builds_it_too(
    postgresql_url: str, database: Database, tmp_path: Path
) -> None:
    with (
        caller(postgresql_url, tmp_path) as client,
        closing(Database(postgresql_url, pool_size=1)) as slow,
        slow.reading() as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        # Building waits for whoever has begun to write.
        connection.run("begin")
        connection.run("lock table ix_text in row exclusive mode")
        building = pool.submit(part_indexes.build, database)
        try:
            end = time.monotonic() + 120
            while not part_indexes.progress(database):
                assert time.monotonic() < end
                time.sleep(0.05)
            with pytest.raises(Conflict, match="being built already"):
                _until_known(database)
            assert client.make(jobtitle="Engineer")
            assert not building.done()
        finally:
            connection.run("commit")
        assert building.result(timeout=120)
    assert part_indexes.progress(database) == ""


def _until_known(database: Database) -> None:
    """Try to drop the index until its builder has said which one it builds."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        assert not part_indexes.drop(database)
        time.sleep(0.05)


def test_who_may_not_make_the_extension_is_told(postgresql_url: str) -> None:
    with closing(Database(postgresql_url, pool_size=1)) as admin, admin.reading() as connection:
        connection.run("drop extension if exists pg_trgm cascade")
        role = f"crmhub_test_{token(40, BASE36)}"
        connection.run(f"create role {role} login")
        try:
            theirs = admin.url.set(username=role).render_as_string(hide_password=False)
            with (
                closing(Database(theirs, pool_size=1)) as database,
                pytest.raises(Semantic, match="owner run `create extension pg_trgm`"),
            ):
                part_indexes.build(database)
        finally:
            connection.run(f"drop role {role}")
