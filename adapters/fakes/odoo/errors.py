"""The Python exceptions of Odoo that its interfaces report, and how they do."""

from __future__ import annotations

from typing import Any

_DEBUG = 'Traceback (most recent call last):\n  File "/odoo/http.py", line 1\n{name}: {message}\n'


class OdooError(Exception):
    """An exception inside of Odoo: its qualified name, its message, and its status in JSON-2."""

    def __init__(self, name: str, message: str, status: int = 500) -> None:
        super().__init__(message)
        self.name = name
        self.message = message
        self.status = status

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


def user_error(message: str) -> OdooError:
    """Return the error that Odoo raises for what a person can correct."""
    return OdooError("odoo.exceptions.UserError", message, 422)


def validation_error(message: str) -> OdooError:
    """Return the error of a constraint of a model."""
    return OdooError("odoo.exceptions.ValidationError", message, 422)


def access_error(message: str) -> OdooError:
    """Return the error of a missing right."""
    return OdooError("odoo.exceptions.AccessError", message, 403)


def access_denied() -> OdooError:
    """Return the error of a refused key."""
    return OdooError("odoo.exceptions.AccessDenied", "Access Denied", 403)


def missing_error(model: str, id: int) -> OdooError:
    """Return the error of a record that does not exist."""
    message = f"Record does not exist or has been deleted.\n(Record: {model}({id},))"
    return OdooError("odoo.exceptions.MissingError", message, 404)


def invalid_field(field: str, model: str) -> OdooError:
    """Return the error of a field that the model does not have: a bug of the caller for Odoo."""
    return OdooError("builtins.ValueError", f"Invalid field '{field}' on model '{model}'")


def serialization_failure() -> OdooError:
    """Return the error of two transactions that change one record."""
    message = "could not serialize access due to concurrent update\n"
    return OdooError("psycopg2.errors.SerializationFailure", message)
