"""The state of a client's TCP connection, as the Linux kernel reports it.

The kernel reports when data were last received and last sent on a connection, and how many bytes.
Data received after the last answer belong to a request, which may be incomplete.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from contextlib import suppress
from functools import cache

# A longer body needs one of a limited number of places to be read.
SHORT_BODY = 65_536

ESTABLISHED, _CLOSE_WAIT = 1, 8
# A body that grows by less in a second makes no progress.
_PROGRESS_BYTES = 4096
# The size of `HTTP/1.1 100 Continue`, which is no answer; every answer is longer.
_CONTINUE_BYTES = 25
# Fields of Linux's `struct tcp_info`: state, ms since data was sent, ms since data was received,
# bytes received, bytes not sent yet, bytes sent.
_TCP_INFO = struct.Struct("=B43xI4xI72xQ8xI52xQ")


class TcpConnection:
    """A TCP connection of a client, with its state at the last call of `refresh`.

    The connection is identified by granian's file descriptor and the socket's inode. Times are by
    `time.monotonic`.
    """

    __slots__ = (
        "_received_at_progress",
        "_received_before_request",
        "_sent_before_answer",
        "descriptor",
        "inode",
        "is_long",
        "is_proxy",
        "is_receiving",
        "is_slow",
        "last_progress_at",
        "last_received_at",
        "may_be_in_progress",
        "network",
        "received",
        "unchanged_since",
    )

    def __init__(self, descriptor: int, inode: int, network: str, is_proxy: bool) -> None:
        self.descriptor, self.inode = descriptor, inode
        self.network, self.is_proxy = network, is_proxy
        self.last_received_at = self.unchanged_since = self.last_progress_at = 0.0
        self.is_receiving = self.is_slow = self.is_long = self.may_be_in_progress = False
        # Numbers of bytes.
        self.received = self._received_at_progress = self._received_before_request = 0
        self._sent_before_answer = 0

    def read_tcp_info(self) -> tuple[int, ...]:
        """Return the fields of `_TCP_INFO` from the kernel; raises OSError for a closed socket."""
        # Python closes a socket with its object, and granian owns this one: the object is detached.
        handle = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, self.descriptor)
        try:
            data = handle.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        finally:
            handle.detach()
        return _TCP_INFO.unpack(data)

    def refresh(self) -> bool:
        """Update the state from the kernel; return False if the connection is closed."""
        was_receiving, now = self.is_receiving, time.monotonic()
        try:
            state, sent_ms, received_ms, self.received, unsent, sent = self.read_tcp_info()
        except OSError:
            return False
        if state not in (ESTABLISHED, _CLOSE_WAIT):
            return False
        answered = sent - self._sent_before_answer
        self.last_received_at = now - received_ms / 1000
        got_continue = answered == _CONTINUE_BYTES
        self.may_be_in_progress = self.received > 0 and (received_ms <= sent_ms or got_continue)
        self.is_receiving = self.received > 0 and (
            received_ms < sent_ms or not sent or got_continue
        )
        if not self.is_receiving:
            self.unchanged_since = now - min(received_ms, sent_ms) / 1000
            self._received_before_request = self.received
        elif not was_receiving or answered > _CONTINUE_BYTES:
            self.unchanged_since = self.last_received_at
        if not got_continue:
            self._sent_before_answer = sent
        if not self.is_receiving or self.received >= self._received_at_progress + _PROGRESS_BYTES:
            self._received_at_progress, self.last_progress_at = self.received, now
        self.is_slow = self.is_receiving or unsent > 0 or not self.received
        self.is_long = (
            self.is_receiving and self.received - self._received_before_request > SHORT_BODY
        )
        return True

    def is_unanswered(self, sent: int) -> bool:
        """Return whether the connection is open and no further bytes were sent on it.

        `sent`: the number of bytes that had been sent on it at an earlier moment.
        """
        try:
            is_same = os.fstat(self.descriptor).st_ino == self.inode
            state, *_, sent_now = self.read_tcp_info()
        except OSError:
            return False
        return is_same and state == ESTABLISHED and sent_now == sent

    def shut_down(self) -> bool:
        """Close the connection in both directions; return False if it was closed already."""
        try:
            # A copy of the descriptor, since granian may reuse the original at any moment.
            copy = os.dup(self.descriptor)
            handle = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 0, copy)
        except OSError:
            # If the descriptor is now a file, the copy stays open: closing it would drop the
            # process's locks on the file.
            return False
        with handle:
            if os.fstat(copy).st_ino != self.inode:
                return False
            with suppress(OSError):  # the caller was faster
                handle.shutdown(socket.SHUT_RDWR)
        return True


@cache
def has_tcp_info() -> bool:
    """Return whether this system reports all fields of `_TCP_INFO` (Linux 4.19 and newer)."""
    if sys.platform != "linux":
        return False
    with socket.socket() as probe:
        data = probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    return len(data) == _TCP_INFO.size
