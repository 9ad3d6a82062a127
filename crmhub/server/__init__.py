"""The WSGI server: its processes, sockets, connections and request bodies."""
