"""Requests to an application in this process, without sockets."""

from __future__ import annotations

from wsgiref.types import WSGIEnvironment

import flask
from werkzeug.test import EnvironBuilder, run_wsgi_app


def environ_of(data: bytes) -> WSGIEnvironment:
    """Return the WSGI environment of an HTTP request, given as its bytes."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, path, _ = first.split(" ")
    headers = [line.split(": ", 1) for line in lines]
    builder = EnvironBuilder(
        path, method=method, data=body, headers=[(name, value) for name, value in headers]
    )
    return builder.get_environ()


def answer(app: flask.Flask, environ: WSGIEnvironment) -> None:
    """Let the application answer a request; end the program unless the answer is 2xx."""
    chunks, status, _ = run_wsgi_app(app, environ, buffered=True)
    if not status.startswith("2"):
        raise SystemExit(f"{environ['PATH_INFO']}: {status} {b''.join(chunks)!r}")
