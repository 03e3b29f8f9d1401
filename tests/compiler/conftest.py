"""What the tests of the compiler share."""

from collections import OrderedDict

import pytest

from numba_grad.compiler import evaluate, plan_cache
from numba_grad.compiler.building import build, engine_build


@pytest.fixture
def not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are sources, also of plans that are on disk, or that another test has read there."""

    def kernels(requests: list[build.KernelRequest]) -> list[build.LoadedKernel]:
        return [build.LoadedKernel(0, x.source, x.key, x.entry_name, x.signature) for x in requests]

    monkeypatch.setattr(engine_build, "build_requests", kernels)
    monkeypatch.setattr(plan_cache, "key_of", lambda graph, target: None)
    monkeypatch.setattr(evaluate, "_programs", OrderedDict())
