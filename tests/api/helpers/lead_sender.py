"""A process of the hub that sends leads: `python -m tests.api.helpers.lead_sender`.

It reads `{"database_url", "client_id", "first", "leads"}` from its input, sends that many leads
in eight threads, each once, and prints how many the CRM took at once; the others are queued.
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from crmhub.accounts.accounts import load
from crmhub.helpers.create_lead import create_lead
from crmhub.hub import Hub
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings


def _main() -> None:
    given = json.loads(sys.stdin.read())
    hub = Hub.open(
        Settings(
            root=Path(),
            database_url=given["database_url"],
            secret_key="the secret key of the tests alone",
            encryption_keys=(EncryptionKey("k1", b"k" * 32),),
        )
    )
    with hub.database.reading() as connection:
        account = load(connection, given["client_id"], hub.plans)

    def send(number: int) -> bool:
        done = create_lead(
            hub,
            account,
            contact_token=f"t{number}",
            name=f"Ann Lee {number}",
            email=f"ann{number}@x.org",
            phone="",
        )
        return done.status == "created"

    numbers = range(given["first"], given["first"] + given["leads"])
    with ThreadPoolExecutor(8) as pool:
        print(sum(pool.map(send, numbers)))  # noqa: T201 - the test reads it
    hub.close()


if __name__ == "__main__":
    _main()
