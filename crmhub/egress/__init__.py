"""The HTTP session through which the hub sends every outgoing request.

Operators choose the URLs that the hub calls, and the servers there may be slow, broken or hostile.
So `Egress`, a `requests.Session`, reaches only public addresses, enforces a deadline for the whole
call, limits the size of the response, and shares no state between accounts. `Egress` returns
redirects instead of following them, and never sends a request twice.

The exceptions show whether the request was sent. If it was not, the exception is a
`requests.exceptions.ConnectTimeout`, `SSLError` or `InvalidURL` (here its subclass `Refused`), or a
`ConnectionError` around urllib3's `NewConnectionError` or its subclass `NameResolutionError`. After
the request was sent, none of these is raised.
"""

from crmhub.egress.session import Egress, Refused, TooLarge

__all__ = ["Egress", "Refused", "TooLarge"]
