"""What each view of the console requires: nothing, a session, or a right of the user's role.

Every view declares it with `open_to_all`, `for_users` or `needs`; `sessions.guard` refuses a view
that declares nothing. A view whose path names an account or an action can be opened only by users
who see this account.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import flask

from crmhub.users.roles import Right
from crmhub.users.user_sessions import SignedIn

View = TypeVar("View", bound=Callable[..., Any])
_NAME = "console_access"


@dataclass(frozen=True, slots=True)
class Access:
    """What a view requires of the user who opens it; `right`: None for any role."""

    session: bool = True
    right: Right | None = None
    all_accounts: bool = False

    def allows(self, user: SignedIn | None) -> bool:
        """`user`: None is a caller without a session."""
        if user is None:
            return not self.session
        return (self.right is None or user.may(self.right)) and not (
            self.all_accounts and user.accounts is not None
        )


def needs(right: Right, *, all_accounts: bool = False) -> Callable[[View], View]:
    """Require a right, and with `all_accounts` a user who sees all accounts."""
    return _declare(Access(right=right, all_accounts=all_accounts))


def for_users(view: View) -> View:
    return _declare(Access())(view)


def open_to_all(view: View) -> View:
    return _declare(Access(session=False))(view)


def _declare(access: Access) -> Callable[[View], View]:
    def declare(view: View) -> View:
        setattr(view, _NAME, access)
        return view

    return declare


def access_of(endpoint: str) -> Access | None:
    """Return what the view of an endpoint declares, None if nothing."""
    access: Access | None = getattr(flask.current_app.view_functions[endpoint], _NAME, None)
    return access


def may_open(user: SignedIn | None, endpoint: str) -> bool:
    """Return whether a user may open the view of an endpoint, as far as roles decide it."""
    access = access_of(endpoint)
    return access is not None and access.allows(user)
