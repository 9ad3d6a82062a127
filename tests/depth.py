"""How thoroughly the tests run.

`make test` tests each promise. Where a test repeats one scene at very many points, it takes a fixed
part of these; `make test-all` (CRMHUB_TEST_ALL=1) takes them all:

- each harm at one request of each operation of an adapter, not at each of its requests;
- the conformance tests once for each CRM; a second sign-in has tests of its own (`SignInTests`);
- of the tests of the conformance tests, one liar of each kind, and none of the fakes' own tests;
- processes that die behind each step that lasts, not around each statement and each call;
- the scenes in which these die with one of two CRMs on each database, in turn, not with both;
- the essential tests of the adapter of Tryton, not all of them on a running Tryton;
- the benchmark whose findings are faults of the hub, not all benchmarks;
- a test whose subject is not SQL on one database (`tests/marks.py`), not on both;
- what contacts, deals, companies and tickets have in common with two of them: they differ by data.

Programs that tests install from npm and PyPI (generators of clients, linters, axe, n8n, Node-RED,
clients of other makers) run with `make test-all` only: `make test` needs what is installed.
"""

from __future__ import annotations

import os

import pytest

ALL = os.environ.get("CRMHUB_TEST_ALL") == "1"
thorough = pytest.mark.skipif(not ALL, reason="make test-all runs it")
"""A mark of tests that run with `make test-all` only."""
KINDS = ("contacts", "deals", "companies", "tickets") if ALL else ("contacts", "tickets")
"""The kinds of records with which a test runs that holds for each of them."""
