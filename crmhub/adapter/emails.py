"""Create contacts in a CRM that takes an email twice: look it up once more, under a lease."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from crmhub.adapter.contract import Adapter
from crmhub.adapter.errors import Conflict, NotYet
from crmhub.adapter.values import ContactWrite


@contextmanager
def free_email(adapter: Adapter, email: str) -> Iterator[None]:
    """Raises Conflict if a contact has the email, and errors of `find_contact` and the lease."""
    if not email:
        yield
        return
    with adapter.context.lease(_key(email), adapter.context.remaining()):
        holder = adapter.find_contact(email=email.lower())
        if holder is not None:
            raise Conflict("This email is taken.", existing_id=holder.id, name="email")
        yield


@contextmanager
def free_emails(adapter: Adapter, writes: Sequence[ContactWrite]) -> Iterator[list[int]]:
    """Yield the indexes to write: neither a contact nor another process holds the email.

    The others, made alone, wait or raise Conflict. Raises the errors of `find_contacts`.
    """
    held: dict[str, int] = {}
    with ExitStack() as leases:
        for index, write in enumerate(writes):
            email = _new_email(write)
            if email and email not in held:
                seconds = adapter.context.remaining()
                # Without waiting, since another batch may hold a lease and wait for one of these.
                with suppress(NotYet):
                    leases.enter_context(adapter.context.lease(_key(email), seconds, patience=0.0))
                    held[email] = index
        taken = adapter.find_contacts(emails=list(held)) if held else {}
        free = {index for email, index in held.items() if email not in taken}
        yield [i for i, write in enumerate(writes) if i in free or not _new_email(write)]


def _new_email(write: ContactWrite) -> str:
    return "" if write.contact_id else write.properties.get("email", "").lower()


def _key(email: str) -> str:
    return f"email {email.lower()}"
