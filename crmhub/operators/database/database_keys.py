"""A database and the secrets with which it is used belong together: it stores fingerprints.

Development makes its secrets in `var/` of the folder in which a process starts; a process in
another folder would seal credentials with a key that the service does not have, so it is refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass

import sqlalchemy as sa

from crmhub.database.connection import Connection, Database
from crmhub.database.drivers import Unwritable
from crmhub.database.rows import delete_where
from crmhub.database.statements import Statement, params
from crmhub.database.tables import key_fingerprint
from crmhub.secrets import derive
from crmhub.settings import Settings, SettingsError

_SECRET_KEY = "secret_key"
_ROWS = Statement(sa.select(key_fingerprint))
_STORE = Statement(
    lambda insert: (
        insert(key_fingerprint)
        .values(params("name", "fingerprint", "made_in"))
        .on_conflict_do_nothing(index_elements=["name"])
    )
)


@dataclass(frozen=True, slots=True)
class _Key:
    """A secret of this process; `made`: development has made it in `var/`."""

    setting: str
    name: str
    fingerprint: str
    made: bool


def claim(settings: Settings) -> None:
    """Store the fingerprints in the database; raises SettingsError for a foreign secret."""
    with closing(Database(settings.database_url, pool_size=1)) as database:
        with database.across_accounts(), database.reading() as db:
            if found := problems(settings, db):
                raise SettingsError(found)
            known = {row.name: row.fingerprint for row in db.rows(_ROWS)}
        new = [one for one in _keys(settings) if known.get(one.name) != one.fingerprint]
        if new:
            # A database that takes no writes, as on a full disk, seals nothing either.
            with suppress(Unwritable):
                database.transact(lambda tx: _store(tx, settings, new))
            with database.across_accounts(), database.reading() as db:
                # Another folder may have been faster.
                if found := problems(settings, db):
                    raise SettingsError(found)


def problems(settings: Settings, db: Connection) -> list[str]:
    """Return a sentence for each secret of this process that does not belong to the database."""
    known = {row.name: row for row in db.rows(_ROWS)}
    found = []
    for one in _keys(settings):
        row = known.get(one.name)
        if row is not None and row.fingerprint == one.fingerprint:
            continue
        if one.made and (known if one.setting != _SECRET_KEY else row):
            origin = next((each.made_in for each in known.values() if each.made_in), "")
            found.append(_of_another_folder(settings, one, origin))
        elif row is not None and one.setting != _SECRET_KEY:
            found.append(
                f"CRMHUB_ENCRYPTION_KEYS: {one.name} is another key than the one of this database;"
                " give that one back, or a new key another id."
            )
    return found


def _of_another_folder(settings: Settings, one: _Key, origin: str) -> str:
    file, variable = settings.var / one.setting, f"CRMHUB_{one.setting.upper()}"
    remedy = f"put the former one back, or give {variable}"
    if origin != str(settings.root):
        folder = origin or "the folder of the service"
        remedy = f"start crmhub in {folder}, copy that folder's var/{one.setting} here, or give"
        remedy += f" {variable}"
    return f"{one.setting} ({file}): this database is used with another one; {remedy}."


def _keys(settings: Settings) -> Iterator[_Key]:
    made = settings.made
    fingerprint = derive(settings.secret_key, "fingerprint").hex()
    yield _Key(_SECRET_KEY, _SECRET_KEY, fingerprint, _SECRET_KEY in made)
    for key in settings.encryption_keys:
        fingerprint = derive(key.key, "fingerprint").hex()
        is_made = "encryption_keys" in made
        yield _Key("encryption_keys", f"key {key.id}", fingerprint, is_made)


def _store(tx: Connection, settings: Settings, new: list[_Key]) -> None:
    for one in new:
        if one.name == _SECRET_KEY:
            # A secret key that is given may change.
            delete_where(tx, key_fingerprint, {"name": _SECRET_KEY})
        made_in = str(settings.root) if one.made else ""
        tx.run(_STORE, {"name": one.name, "fingerprint": one.fingerprint, "made_in": made_in})
