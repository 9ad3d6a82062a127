"""The HTTP session through which every outgoing call goes.

Operators choose the addresses the hub calls, and answers may be slow, huge or hostile. So `Egress`,
a `requests.Session`, reaches public addresses only, enforces the call's deadline, limits the
answer's size, and shares no state between accounts. It returns redirects instead of following them,
and never sends a request twice.

Before a request is sent it raises only `requests.exceptions.ConnectTimeout`, `SSLError`,
`InvalidURL` (here `Refused`), and `ConnectionError` around urllib3's `NewConnectionError` (or its
subclass `NameResolutionError`); after the request is sent it raises none of these.
"""

from crmhub.egress.session import Egress, Refused, TooLarge

__all__ = ["Egress", "Refused", "TooLarge"]
