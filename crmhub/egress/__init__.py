"""The HTTP session through which the hub sends every outgoing request.

`Egress` reaches only public addresses, has a deadline for the whole call, limits the response,
shares no state between accounts, returns redirects, and never sends a request twice.

If the request was not sent, the exception is a `requests.exceptions.ConnectTimeout`, `SSLError` or
`InvalidURL` (here `Refused`), or a `ConnectionError` around urllib3's `NewConnectionError` or
`NameResolutionError`. Afterwards none of these is raised.
"""

from crmhub.egress.connections import tls_context
from crmhub.egress.session import Egress, Refused, TooLarge

__all__ = ["Egress", "Refused", "TooLarge", "tls_context"]
