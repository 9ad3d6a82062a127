"""What `crmhub adapter new` starts from passes the conformance tests, run as it stands."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import crmhub.adapter

SKELETON = Path(crmhub.adapter.__file__).parent / "skeleton"


def _module(path: str) -> ModuleType:
    """Import a file under its bare name, by which the others of its package import it."""
    file = SKELETON / path
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[file.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


for _path in ("crmhub_acme.py", "tests/fake_acme.py"):
    _module(_path)
TestAcme = _module("tests/test_acme.py").TestAcme
