"""The Python exceptions of Odoo that its interfaces report, and how they do."""

from __future__ import annotations

from typing import Any

_DEBUG = 'Traceback (most recent call last):\n  File "/odoo/http.py", line 1\n{name}: {message}\n'
_STATUSES = {"UserError": 422, "ValidationError": 422, "AccessError": 403, "AccessDenied": 403}


class OdooError(Exception):
    """An exception inside of Odoo: its qualified name, its message, and its status in JSON-2.

    `field` is the field of a missing value.
    """

    def __init__(self, name: str, message: str, status: int = 500, *, field: str = "") -> None:
        super().__init__(message)
        self.name, self.message, self.status, self.field = name, message, status, field

    def data(self, secret: str = "") -> dict[str, Any]:
        """Return the exception as both interfaces send it.

        `secret` stands in the traceback, as the values of a call may.
        """
        debug = _DEBUG.format(name=self.name, message=self.message) + secret
        return {
            "name": self.name,
            "message": self.message,
            "arguments": [self.message],
            "context": {},
            "debug": debug,
        }


def own_error(name: str, message: str) -> OdooError:
    """Return one of Odoo's own exceptions, such as UserError."""
    return OdooError(f"odoo.exceptions.{name}", message, _STATUSES[name])


def missing_error(model: str, id: int) -> OdooError:
    """Return the error of a record that does not exist."""
    message = f"Record does not exist or has been deleted.\n(Record: {model}({id},))"
    return OdooError("odoo.exceptions.MissingError", message, 404)
