"""A cache of adapters: it keeps the adapters of the 1,000 accounts called last."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

from crmhub.accounts.accounts import Account
from crmhub.adapter import Adapter

_MOST = 1_000


class Connected:
    """A cache of one adapter for each account; if an account has changed, it is made again."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, tuple[Account, Adapter]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, account: Account, make: Callable[[], Adapter]) -> Adapter:
        with self._lock:
            kept = self._kept.get(account.id)
            if kept is not None and (kept[0] is account or kept[0] == account):
                self._kept.move_to_end(account.id)
                return kept[1]
        made = make()
        with self._lock:
            self._kept[account.id] = (account, made)
            self._kept.move_to_end(account.id)
            if len(self._kept) > _MOST:
                self._kept.popitem(last=False)
        return made
