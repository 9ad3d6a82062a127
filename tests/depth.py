"""How thoroughly the tests run.

`make test` tests each promise. Where a test repeats one scene at very many points, it takes a fixed
part of these; `make test-all` (CRMHUB_TEST_ALL=1) takes them all:

- each harm at one request of each operation of an adapter, once or for good, not at each of its
  requests and both ways;
- a liar of each kind, not all tests of the conformance tests, and the fakes' command, not all tests
  of the fakes; of a second interface of a CRM its sign-in, not all conformance tests, and of
  HubSpot and Pipedrive no further set-ups; Odoo's own tests on one of its interfaces, not on both;
- processes that die behind each step that lasts, not around each statement and each call;
- the scenes in which these die with one of two CRMs on each database, in turn, not with both;
- each test whose subject is no SQL on one database, not on both (tests/marks.py);
- half of the random requests of each operation;
- the proofs that the walk through the crash points notices a fault;
- the essential tests of the adapter of Tryton, not all of them on a running Tryton;
- the benchmark whose findings are faults of the hub, not all benchmarks.

Programs that tests install from npm and PyPI (generators of clients, linters, axe, n8n, Node-RED,
clients of other makers) run with `make test-all` only: `make test` needs what is installed.
"""

from __future__ import annotations

import os

import pytest

ALL = os.environ.get("CRMHUB_TEST_ALL") == "1"
thorough = pytest.mark.skipif(not ALL, reason="make test-all runs it")
"""A mark of tests that run with `make test-all` only."""
