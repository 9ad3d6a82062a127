"""The only way out: the HTTP session through which every outgoing call goes.

Operators choose where the hub calls, and what answers may be slow, huge or hostile. So `Egress`,
a `requests.Session`, reaches public addresses only, ends each call at its deadline, bounds the
answer, and keeps nothing of one account for the next. Redirects are returned, never followed;
nothing is sent twice.

Until the request is sent it raises only `requests.exceptions.ConnectTimeout`, `SSLError`,
`InvalidURL` (here `Refused`), and `ConnectionError` around urllib3's `NewConnectionError` (of
which `NameResolutionError` is one); after that none of these.
"""

from crmhub.egress.session import Egress, Refused, TooLarge

__all__ = ["Egress", "Refused", "TooLarge"]
