from __future__ import annotations

from crmhub.adapter import is_record_id
from crmhub.api.agents.agent import Agent
from crmhub.errors import BadRequest
from crmhub.helpers import read_crm
from crmhub.properties.kinds import Kind


def source(agent: Agent, *, remote: bool) -> str:
    return read_crm.crm_title(agent.hub, agent.account) if remote else "hub"


def elsewhere(agent: Agent, kind: Kind) -> str:
    """Return "" for all accounts whose records are in the hub."""
    if not read_crm.is_remote(agent.hub, agent.account):
        return ""
    title = read_crm.crm_title(agent.hub, agent.account)
    return f" This account's {kind.name} are in {title}, which this tool does not reach."


def own_id(agent: Agent, kind: Kind, sent: object, where: str) -> int:
    """`where`: the argument, for the message. Raises BadRequest."""
    text = str(sent).strip()
    if not is_record_id(text):
        shown = "".join(c if c.isprintable() else "�" for c in text[:60])
        raise BadRequest(
            f"{where}: {shown!r} is not the id of a {kind.singular} in the hub; send a number such"
            " as 481516234211, as search_records and find_contacts answer it."
            + elsewhere(agent, kind)
        )
    return int(text)
