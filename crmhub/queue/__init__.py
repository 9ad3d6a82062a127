"""The journal: all actions that helpers accepted, stored in the database before the CRM is called.

An action is `running` while a process attempts it, and `queued` while it waits for its next
attempt. An action ends as `done`, as `refused` (the caller got the error), or as `discarded` by an
operator. An action is `dead` if it has failed and its caller is gone or no retry helped, and
`parked` while it is blocked by the failed lead that would create its contact. A process that
attempts an action has a lease on it. The lease is a token that `finish` checks; `run_at` is the
time when it expires. So the action of a process that died becomes due again.

An action waits for every earlier unfinished action of the same person (the group of bindings that
the hub takes for one human being), so that older values never overwrite newer ones. A failed action
blocks only actions that need its contact. Each of these checks, before its attempt, whether the
contact is missing (`leads_of`). The first lead that creates the contact queues all blocked actions
again. All actions of a connection wait while its CRM is unavailable (`outages`).
"""
