"""The journal: all actions that helpers accepted, stored in the database before the CRM is called.

States: `running` (a process attempts it), `queued` (waits for its next attempt), `done`, `refused`
(the caller got the error), `discarded` by an operator, `dead` (failed, and its caller is gone or no
retry helped), and `parked` (blocked by the failed lead that would create its contact). A process
that attempts an action holds its lease, a token that `finish` checks; `run_at` is the time when it
expires. So the action of a process that died becomes due again.

An action waits for every earlier unfinished action of the same person (the group of bindings that
the hub takes for one human being), so that older values never overwrite newer ones. A failed action
blocks only actions that need its contact, until the first lead that creates the contact. All
actions of a connection wait while its CRM is unavailable (`outages`).

Times are in ms since 1970 by the database's clock; `moment` is the present.
"""
