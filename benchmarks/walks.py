"""Count the project's files and functions that a warm request enters.

    python -m benchmarks.walks [--show create] [--database-url URL]

Each request runs in this process until it is warm, then once more under a profiler. Functions of
`crmhub` and `adapters` are counted, without comprehensions. The exit code is 1 if a number is over
its bound. `--show` prints the functions of one walk in the order in which they are entered.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import flask

from benchmarks.places import parser
from crmhub.app import create_app
from crmhub.audit import Author
from crmhub.database.schema import upgrade
from crmhub.hub import Hub
from crmhub.operators.accounts.open_account import open_account
from crmhub.secrets import EncryptionKey
from crmhub.settings import Settings

_ROOT = Path(__file__).parents[1]
_OURS = tuple(f"{_ROOT / name}/" for name in ("crmhub", "adapters"))
_WARM = 20
_BOUNDS = {"list": (14, 45), "search": (20, 75), "create": (20, 75), "createLead": (40, 160)}


def main() -> None:
    """Run it from the command line."""
    command = parser(__doc__)
    command.add_argument("--show", choices=_BOUNDS, help="print the functions of this walk")
    command.add_argument("--database-url", default="", help="of an empty database; else SQLite")
    options = command.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(_measure(Path(folder), options))


def _measure(folder: Path, options: argparse.Namespace) -> int:
    url = options.database_url or f"sqlite:///{folder}/walks.db"
    upgrade(url)
    settings = Settings(
        root=folder,
        database_url=url,
        log_level="warning",
        secret_key="the secret key of a benchmark",
        encryption_keys=(EncryptionKey("k1", b"k" * 32),),
    )
    app = create_app(settings)
    requests = _requests(app)
    over = 0
    print(f"{'':12}{'files':>12}{'functions':>14}")
    for name, (most_files, most_functions) in _BOUNDS.items():
        walk = _walk(requests[name])
        files = len({code.co_filename for code in walk})
        over += files > most_files or len(walk) > most_functions
        print(f"{name:12}{files:>5} of {most_files:>3}{len(walk):>7} of {most_functions:>3}")
        if options.show == name:
            _print_walk(walk)
    hub: Hub = app.extensions["crmhub"]
    hub.close()
    return 1 if over else 0


def _requests(app: flask.Flask) -> dict[str, Callable[[], Any]]:
    """Return a function per walk that sends its request, for a new person each time."""
    hub: Hub = app.extensions["crmhub"]
    _, ids = open_account(hub, name="Walks", client_id="walks", by=Author("cli", "walks"))
    client = app.test_client()
    headers = {"service-apikey": ids.api_key}
    api = "/walks/api/v1/contacts"
    numbers = iter(range(1_000_000))

    def person() -> dict[str, str]:
        return {"email": f"p{next(numbers)}@example.com", "firstname": "Ann", "city": "Rome"}

    def send(path: str, body: dict[str, Any]) -> None:
        answer = client.post(path, json=body, headers=headers)
        assert answer.status_code < 300, answer.text

    def read() -> None:
        assert client.get(f"{api}?limit=20", headers=headers).status_code == 200

    def lead() -> None:
        one = person()
        body = {"contactToken": one["email"], "name": "Ann Lee", "email": one["email"]}
        send(f"/chatbot/createLead/{ids.generated_id}", body)

    search = {"filters": [{"propertyName": "city", "operator": "EQ", "value": "Rome"}]}
    return {
        "list": read,
        "search": lambda: send(f"{api}/search", search),
        "create": lambda: send(api, {"properties": person()}),
        "createLead": lead,
    }


def _walk(request: Callable[[], Any]) -> list[CodeType]:
    """Return the project's functions that a warm request enters, in order, each once."""
    for _ in range(_WARM):
        request()
    entered: dict[CodeType, None] = {}

    def note(frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        ours = code.co_filename.startswith(_OURS) and not code.co_name.startswith("<")
        if event == "call" and ours:
            entered.setdefault(code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        request()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return list(entered)


def _print_walk(walk: list[CodeType]) -> None:
    for code in walk:
        file = Path(code.co_filename).relative_to(_ROOT)
        print(f"    {file}:{code.co_firstlineno} {code.co_qualname}")


if __name__ == "__main__":
    main()
