"""The agents that call in these tests."""

from __future__ import annotations

import flask
import pytest

from tests.api.agents.agent_calls import AgentCaller, caller_with
from tests.clients import Client


@pytest.fixture
def agent(client: Client, app: flask.Flask) -> AgentCaller:
    """An agent with a key of its own, which the journal names."""
    return caller_with(client, app, (), "the desk's agent")
