"""The distribution of a PostgreSQL database by account over several servers, with Citus.

Most tables are split by `account_id`; those by which a request finds its account are copied to each
server; the others stay on the coordinator, to which all processes connect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crmhub.database.connection import Connection, Database
from crmhub.database.tables import metadata
from crmhub.errors import BadRequest

REFERENCE = ("account", "api_key", "webhook_id")
"""The tables by which a request finds its account; each server has a copy of them."""
COORDINATOR = (
    "admin_token",
    "alert",
    "audit",
    "console_link",
    "console_recovery_code",
    "console_session",
    "console_setup_link",
    "console_user",
    "hub_process",
    "key_fingerprint",
    "outbox",
    "saved_view",
)
"""The tables that are only on the coordinator, such as those for operators and their alerts."""
DISTRIBUTED = tuple(
    table.name
    for table in metadata.sorted_tables
    if table.name not in REFERENCE and table.name not in COORDINATOR
)

_UNLOGGED = (
    "select relname from pg_class where relnamespace = current_schema()::regnamespace"
    " and relkind = 'r' and relpersistence = 'u'"
)
_UNAVAILABLE = (
    "select nodename || ':' || nodeport from run_command_on_workers('select 1') where not success"
)
# The catalogue of Citus is on the coordinator.
_BY_NODE = (
    "select p.groupid, array_agg(i.id) from unnest(cast(:ids as int[])) as i (id)"
    " join pg_dist_placement p"
    " on p.shardid = get_shard_id_for_distribution_column('records', i.id) group by p.groupid"
)
_TRUNCATE = "select truncate_local_data_after_distributing_table(cast(:name as regclass))"


@dataclass(frozen=True, slots=True)
class Distribution:
    """`nodes` store accounts; `tables` gives "distributed", "reference" or "local".

    Citus cannot move `unlogged` tables to another node. `unavailable`: addresses of nodes.
    """

    is_coordinator: bool
    nodes: int
    tables: Mapping[str, str]
    unlogged: Sequence[str] = ()
    unavailable: Sequence[str] = ()

    @property
    def missing(self) -> list[str]:
        kinds = dict.fromkeys(REFERENCE, "reference") | dict.fromkeys(DISTRIBUTED, "distributed")
        return [name for name, kind in kinds.items() if self.tables.get(name) != kind]


def read_distribution(database: Database) -> Distribution | None:
    """None without the extension Citus."""
    if database.dialect != "postgresql":
        return None
    with database.reading() as db:
        if not db.scalar("select count(*) from pg_extension where extname = 'citus'"):
            return None
        rows = db.rows("select cast(table_name as text), citus_table_type from citus_tables")
        return Distribution(
            is_coordinator=db.scalar("select groupid from pg_dist_local_group") == 0,
            nodes=db.scalar(
                "select count(*) from pg_dist_node where isactive and shouldhaveshards"
                " and noderole = 'primary'"
            ),
            tables=dict(rows),
            unlogged=[name for (name,) in db.rows(_UNLOGGED)],
            unavailable=[node for (node,) in db.rows(_UNAVAILABLE)],
        )


def accounts_by_node(db: Connection) -> dict[int, list[int]]:
    """Return the ids of the accounts of each node, by the node's group."""
    ids = [id for (id,) in db.rows("select id from account order by id")]
    return dict(db.rows(_BY_NODE, {"ids": ids}))


def distribute(database: Database, *, shards: int = 32) -> list[str]:
    """Return the names of the tables distributed now.

    `shards` is the number of parts at the first time. Writers wait while rows are moved; calling it
    again continues. Unlogged tables become logged. Raises BadRequest without Citus, away from the
    coordinator, without servers for accounts, and under row-level security.
    """
    found = read_distribution(database)
    if found is None:
        raise BadRequest(
            "Only PostgreSQL with the extension Citus can be distributed. On the coordinator, run"
            " CREATE EXTENSION citus and add the nodes (citus_add_node); then run this again."
        )
    if not found.is_coordinator:
        raise BadRequest("CRMHUB_DATABASE_URL leads to a worker node; set it to the coordinator.")
    if not found.nodes:
        raise BadRequest("Citus has no node that takes shards; add one (citus_add_node).")
    with database.reading() as db:
        is_secured = db.scalar(
            "select relrowsecurity from pg_class where oid = to_regclass('records')"
        )
    if is_secured:
        raise BadRequest(
            "The tables are under row-level security, and Citus does not pass the account on to its"
            " nodes. Remove it (crmhub db secure --off), or do not distribute the database."
        )
    names = found.missing
    with database.reading() as db:
        for name in found.unlogged:
            db.run(f"alter table {name} set logged")
        for name in names:
            if name in REFERENCE:
                db.row("select create_reference_table(cast(:name as regclass))", {"name": name})
            else:
                is_first = name == DISTRIBUTED[0] and name not in found.tables
                where = "'none', shard_count => :shards" if is_first else ":other"
                db.row(
                    "select create_distributed_table(cast(:name as regclass), 'account_id',"
                    f" colocate_with => {where})",
                    {"name": name, "shards": shards, "other": DISTRIBUTED[0]},
                )
            db.row(_TRUNCATE, {"name": name})
    return names
