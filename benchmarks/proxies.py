"""Runs nginx before a hub, with the configuration that ships."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.places import free_port, wait_for

_SHIPPED = Path(__file__).parents[1] / "config" / "nginx" / "crmhub.conf"
# The main configuration: one process of the present user, which writes into its own folder.
_MAIN = """
daemon off;
master_process off;
pid nginx.pid;
events { worker_connections 8192; }
http {
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include crmhub.conf;
}
"""


@contextmanager
def run_nginx(nginx: str, root: Path, *hub_ports: int) -> Iterator[int]:
    """Run nginx before hubs until the block ends, without TLS; yield its port.

    `nginx`: the path of the program.
    """
    port, conf = free_port(), _SHIPPED.read_text()
    hubs = " ".join(f"server 127.0.0.1:{each} max_fails=0;" for each in hub_ports)
    for pattern, ours in (
        (r"listen 443 ssl;", f"listen 127.0.0.1:{port};"),
        (r"ssl_certificate \S+;", ""),
        (r"ssl_certificate_key \S+;", ""),
        (r"server 127\.0\.0\.1:8080;", hubs),
    ):
        conf, changed = re.subn(pattern, ours, conf)
        assert changed == 1, pattern
    (root / "crmhub.conf").write_text(conf)
    (root / "nginx.conf").write_text(_MAIN)
    with open(root / "nginx.log", "w") as log:
        running = subprocess.Popen(
            [nginx, "-p", os.fspath(root), "-c", "nginx.conf", "-e", "stderr"], stderr=log
        )
    try:
        wait_for(port, running)
        yield port
    finally:
        running.terminate()
        running.wait()
