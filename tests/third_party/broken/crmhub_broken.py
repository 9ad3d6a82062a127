"""An adapter whose vendor's library is not installed."""

import no_such_vendor_library  # noqa: F401
