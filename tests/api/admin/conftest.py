"""What several modules of the admin API's tests need."""

from __future__ import annotations

import flask
import pytest

from tests.admin import Admin, open_admin


@pytest.fixture
def admin(app: flask.Flask) -> Admin:
    """A caller of the admin API with every scope."""
    return open_admin(app)
