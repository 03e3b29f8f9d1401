"""Times numba_grad and its peers on one NVIDIA GPU: `python perf/gpu.py [names] [--json FILE]`.

Each implementation of a workload runs in a process of its own. `--at-once N` of them prepare side
by side, arrays, imports and first run, and take turns at what is timed: whoever times has the GPU
alone. The results are compared with those of float64 on the first one. Without a GPU, `--predict
sm_90` compiles the same programs and tells bytes, launches and what ptxas says of the kernels:
predictions, which the report labels so.
"""

import argparse
import contextlib
import dataclasses
import datetime
import fcntl
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from perf.machine import commit, version  # noqa: E402
from perf.workloads import black_scholes, heat_adjoint  # noqa: E402

PACKAGES = ("numba-cuda", "cuda-bindings", "nvidia-nvjitlink", "torch", "jax", "cupy-cuda13x")
PEERS = ("numba_grad", "torch eager", "torch compile", "jax", "cupy")
RUNS = 11
PROCESSES = 5
LIMIT = 600.0  # seconds for one implementation
LONG_SIDE = 1024
MEMORY = 80 << 30  # bytes of a GPU that is not there
SAMPLES = 1_000_000  # elements of a result that are compared


@dataclasses.dataclass(frozen=True)
class Workload:
    """One program: `function` of a library's names gives it as a function of arrays."""

    title: str
    inputs: Callable[[], list[np.ndarray]]
    function: Callable[[Any], Callable[..., Any]]
    minimal_bytes: int  # 0 where it depends on what is computed again
    differentiated: tuple[int, ...] = ()  # the arguments that gradients are wanted for
    peers: tuple[str, ...] = PEERS
    tolerance: float = 1e-9
    # arrays like the inputs that take no memory
    shapes: Callable[[], list[np.ndarray]] | None = None


@dataclasses.dataclass(frozen=True)
class Library:
    """The names that workloads use."""

    np: Any
    erf: Any = None
    pad: Any = None
    arange: Any = None
    fori_loop: Any = None
    while_loop: Any = None


def options(count: int, dtype: str) -> Workload:
    def inputs() -> list[np.ndarray]:
        return [x.astype(dtype) for x in black_scholes.inputs(black_scholes.Size(count))]

    def function(library: Library) -> Callable[..., Any]:
        np = library.np
        return black_scholes.total_price(np.log, np.sqrt, np.exp, library.erf, np.sum)

    return Workload(
        f"Black-Scholes gradient, {count:.0e} options, {dtype}",
        inputs,
        function,
        10 * np.dtype(dtype).itemsize * count,
        (0, 1, 2, 3, 4),
        ("numba_grad", "torch eager", "torch compile", "jax"),
        1e-9 if dtype == "float64" else 1e-3,
        lambda: [np.broadcast_to(np.zeros(1, dtype), count)] * 5,
    )


def scaled(count: int) -> Workload:
    """What is as fast as memory, if anything is: the yardstick of the others."""
    return Workload(
        f"twice {count:.0e} numbers, float64",
        lambda: [np.linspace(0.0, 1.0, count)],
        lambda library: lambda x: x * 2.0,
        16 * count,
        shapes=lambda: [np.broadcast_to(np.zeros(1), count)],
    )


def reduction(shape: tuple[int, int], axis: int | None, dtype: str) -> Workload:
    size = math.prod(shape) * np.dtype(dtype).itemsize
    return Workload(
        f"sum of {shape[0]} x {shape[1]}, axis {axis}, {dtype}",
        lambda: [np.random.default_rng(0).uniform(size=shape).astype(dtype)],
        lambda library: lambda x: library.np.sum(x, axis=axis) if axis is not None else x.sum(),
        size,
        tolerance=1e-9 if dtype == "float64" else 1e-4,
        shapes=lambda: [np.broadcast_to(np.zeros(1, dtype), shape)],
    )


def forces(count: int) -> Workload:
    from perf.workloads.lennard_jones import positions

    def function(library: Library) -> Callable[..., Any]:
        def energy(x: Any) -> Any:
            number = library.arange(count)
            difference = x[:, None, :] - x[None, :, :]
            square = (difference * difference).sum(-1)
            is_self = number[:, None] == number[None, :]
            inverse = library.np.where(is_self, 0.0, 1.0 / library.np.where(is_self, 1.0, square))
            sixth = inverse * inverse * inverse
            return 2.0 * (sixth * sixth - sixth).sum()

        return energy

    peers = ("numba_grad", "torch compile", "jax")
    title = f"Lennard-Jones forces, {count} particles"
    return Workload(title, lambda: [positions(count)], function, 48 * count, (0,), peers, 1e-7)


def heat(side: int, steps: int) -> Workload:
    size = heat_adjoint.Size(steps, side)

    def function(library: Library) -> Callable[..., Any]:
        return heat_adjoint.in_a_loop(size, library.pad)

    title = f"heat equation adjoint, {side} x {side}, {steps} steps"
    peers = ("numba_grad", "torch eager", "jax")
    return Workload(title, lambda: heat_adjoint.inputs(size), function, 0, (0, 1), peers, 1e-8)


def normalization(rows: int, columns: int) -> Workload:
    """Three sums of each row, forward and backward, and two of each column."""

    def inputs() -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        shapes = ((rows, columns), (columns,), (columns,))
        return [rng.standard_normal(shape, np.float32) for shape in shapes]

    def function(library: Library) -> Callable[..., Any]:
        def loss(x: Any, scale: Any, shift: Any) -> Any:
            centred = x - x.mean(1)[:, None]
            deviation = library.np.sqrt((centred * centred).mean(1)[:, None] + 1e-5)
            return library.np.tanh(centred / deviation * scale + shift).sum()

        return loss

    return Workload(
        f"layer normalization gradient, {rows} x {columns}, float32",
        inputs,
        function,
        2 * 4 * rows * columns,
        (0, 1, 2),
        ("numba_grad", "torch eager", "torch compile", "jax"),
        1e-2,
        lambda: [
            np.broadcast_to(np.float32(0), shape)
            for shape in ((rows, columns), (columns,), (columns,))
        ],
    )


def softmax(rows: int, columns: int) -> Workload:
    def function(library: Library) -> Callable[..., Any]:
        def f(x: Any) -> Any:
            powers = library.np.exp(x - library.np.max(x, 1)[:, None])
            return powers / powers.sum(1)[:, None]

        return f

    return Workload(
        f"softmax of {rows} x {columns}, float32",
        lambda: [np.random.default_rng(0).standard_normal((rows, columns), np.float32)],
        function,
        2 * 4 * rows * columns,
        peers=("numba_grad", "jax", "cupy"),
        tolerance=1e-4,
        shapes=lambda: [np.broadcast_to(np.float32(0), (rows, columns))],
    )


def products(side: int) -> Workload:
    """Two of three products are the gradient's."""

    def inputs() -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        return [rng.standard_normal((side, side)) for _ in range(2)]

    def function(library: Library) -> Callable[..., Any]:
        return lambda x, y: library.np.tanh(x @ y / side).sum()

    return Workload(
        f"gradient of tanh(x @ y), {side} x {side}, float64",
        inputs,
        function,
        0,
        (0, 1),
        ("numba_grad", "torch eager", "torch compile", "jax"),
        shapes=lambda: [np.broadcast_to(np.zeros(1), (side, side))] * 2,
    )


def small_kernels(count: int) -> Workload:
    """Sums over 64 numbers that each need the one before: nothing to fuse."""

    def function(library: Library) -> Callable[..., Any]:
        def chain(x: Any) -> Any:
            for _ in range(count):
                x = x - library.np.sum(x * x) * 1e-6
            return x

        return chain

    return Workload(
        f"{count} small kernels",
        lambda: [np.linspace(0.0, 1.0, 64)],
        function,
        0,
        peers=("numba_grad", "torch eager", "jax"),
    )


def counted_trips(count: int) -> Workload:
    """A loop as an operation, of a length that is known: a kernel a trip, or none at all."""

    def function(library: Library) -> Callable[..., Any]:
        def body(_: Any, x: Any) -> Any:
            return x - library.np.sum(x * x) * 1e-6

        return lambda x: library.fori_loop(0, count, body, x)

    title = f"fori_loop, {count} trips of a small kernel"
    return Workload(
        title, lambda: [np.linspace(0.0, 1.0, 64)], function, 0, peers=("numba_grad", "jax")
    )


def conditional_trips(count: int) -> Workload:
    """A loop whose condition is computed on the GPU in each trip."""

    def function(library: Library) -> Callable[..., Any]:
        def condition(carried: Any) -> Any:
            return carried[0] < float(count)

        def body(carried: Any) -> Any:
            trips, x = carried
            return trips + 1.0, x - library.np.sum(x * x) * 1e-6

        return lambda x: library.while_loop(condition, body, (x[0] * 0.0, x))[1]

    title = f"while_loop, {count} trips of a small kernel"
    return Workload(
        title, lambda: [np.linspace(0.0, 1.0, 64)], function, 0, peers=("numba_grad", "jax")
    )


def relaxation(side: int, sweeps: int) -> Workload:
    """Sweeps until nothing changes any more, or so many."""

    def function(library: Library) -> Callable[..., Any]:
        np = library.np

        def condition(carried: Any) -> Any:
            count, _, change = carried
            return (count < float(sweeps)) & (change > 1e-30)

        def body(carried: Any) -> Any:
            count, u, _ = carried
            wide = library.pad(library.pad(u, 0), 1)
            mean = 0.25 * (wide[2:, 1:-1] + wide[:-2, 1:-1] + wide[1:-1, 2:] + wide[1:-1, :-2])
            return count + 1.0, mean, np.max(np.abs(mean - u))

        def relaxed(u: Any) -> Any:
            zero = u[0, 0] * 0.0
            return library.while_loop(condition, body, (zero, u, zero + 1.0))[1]

        return relaxed

    return Workload(
        f"while_loop, relaxation of {side} x {side}, {sweeps} sweeps",
        lambda: [np.random.default_rng(0).uniform(size=(side, side))],
        function,
        0,
        peers=("numba_grad", "jax"),
    )


def ensemble(count: int, steps: int) -> Workload:
    """Trajectories of the Lorenz system by Runge-Kutta steps: the gradient by what each starts
    from, and by two numbers that all of them share."""

    def inputs() -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        return [*rng.uniform(-1.0, 1.0, (3, count)), np.array(28.0), np.array(8.0 / 3.0)]

    def function(library: Library) -> Callable[..., Any]:
        def slope(x: Any, y: Any, z: Any, r: Any, b: Any) -> tuple[Any, ...]:
            return 10.0 * (y - x), x * (r - z) - y, x * y - b * z

        def total(x: Any, y: Any, z: Any, r: Any, b: Any) -> Any:
            def step(_: Any, state: Any) -> Any:
                def after(slopes: Any, time: float) -> list[Any]:
                    return [a + time * s for a, s in zip(state, slopes, strict=True)]

                first = slope(*state, r, b)
                second = slope(*after(first, 0.0005), r, b)
                third = slope(*after(second, 0.0005), r, b)
                last = slope(*after(third, 0.001), r, b)
                means = [
                    (k + 2.0 * (m + n) + o) / 6.0
                    for k, m, n, o in zip(first, second, third, last, strict=True)
                ]
                return tuple(after(means, 0.001))

            x, y, z = library.fori_loop(0, steps, step, (x, y, z))
            return (x * x + y * z).sum()

        return total

    return Workload(
        f"gradient of {count} trajectories, {steps} Runge-Kutta steps, float64",
        inputs,
        function,
        2 * 3 * 8 * count * steps,
        (0, 1, 2, 3, 4),
        ("numba_grad", "jax"),
        1e-7,
    )


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "scaled": lambda: scaled(4 * 10**8),
    "options64": lambda: options(10**8, "float64"),
    "options32": lambda: options(10**8, "float32"),
    "sum_all": lambda: reduction((20_000, 20_000), None, "float64"),
    "sum_rows": lambda: reduction((20_000, 20_000), 1, "float64"),
    "sum_columns": lambda: reduction((20_000, 20_000), 0, "float64"),
    "sum_all32": lambda: reduction((20_000, 40_000), None, "float32"),
    "forces": lambda: forces(20_000),
    "heat": lambda: heat(LONG_SIDE, 200),
    "normalization": lambda: normalization(65_536, 1024),
    "softmax": lambda: softmax(65_536, 1024),
    "products": lambda: products(4096),
    "small_kernels": lambda: small_kernels(180),  # of 200 steps a loop is made
    "counted_trips": lambda: counted_trips(1000),
    "conditional_trips": lambda: conditional_trips(1000),
    "ensemble": lambda: ensemble(10_000, 1000),
    "relaxation": lambda: relaxation(512, 2000),
}
FIRST_CALL = "first_call"  # of a process: no program for others, and nothing to predict


# Implementations: each returns a function that runs once and waits, and one that gives the results


def numba_grad(workload: Workload) -> tuple[Callable[[], None], Callable[[], list[np.ndarray]]]:
    import numba_grad as ng

    f = ng.jit(numba_grad_function(workload))
    arguments = [ng.tensor(x, device="cuda") for x in workload.inputs()]
    result: list[Any] = [None]

    def run() -> None:
        result[0] = f(*arguments)
        ng.cuda.synchronize()

    def results() -> list[np.ndarray]:
        found = result[0] if isinstance(result[0], tuple) else (result[0],)
        return [x.cpu().numpy() for x in found]

    return run, results


def numba_grad_function(workload: Workload) -> Callable[..., Any]:
    import numba_grad as ng

    library = Library(ng, ng.erf, heat_adjoint.padded(ng), ng.arange, ng.fori_loop, ng.while_loop)
    f = workload.function(library)
    return ng.grad(f, workload.differentiated) if workload.differentiated else f


def torch(
    workload: Workload, compiled: bool
) -> tuple[Callable[[], None], Callable[[], list[np.ndarray]]]:
    import torch

    def pad(x: Any, axis: int) -> Any:
        return torch.nn.functional.pad(x, (0, 0, 1, 1) if axis == 0 else (1, 1, 0, 0))

    def arange(n: int) -> Any:
        return torch.arange(n, device="cuda")

    f = workload.function(Library(torch, torch.erf, pad, arange))
    arguments = [torch.tensor(x, device="cuda") for x in workload.inputs()]
    wanted = [arguments[k].requires_grad_() for k in workload.differentiated]
    if compiled:
        f = torch.compile(f)
    result: list[Any] = [None]

    def run() -> None:
        out = f(*arguments)
        result[0] = torch.autograd.grad(out, wanted) if wanted else (out,)
        torch.cuda.synchronize()

    return run, lambda: [x.detach().cpu().numpy() for x in result[0]]


def jax(workload: Workload) -> tuple[Callable[[], None], Callable[[], list[np.ndarray]]]:
    # Otherwise it takes three quarters of the memory, from those who prepare beside it.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    library = Library(
        jnp,
        jax.scipy.special.erf,
        heat_adjoint.padded(jnp),
        jnp.arange,
        jax.lax.fori_loop,
        jax.lax.while_loop,
    )
    f = workload.function(library)
    compiled = jax.jit(jax.grad(f, workload.differentiated) if workload.differentiated else f)
    arguments = [jax.device_put(x) for x in workload.inputs()]
    result: list[Any] = [None]

    def run() -> None:
        result[0] = jax.block_until_ready(compiled(*arguments))

    def results() -> list[np.ndarray]:
        found = result[0] if isinstance(result[0], tuple) else (result[0],)
        return [np.asarray(x) for x in found]

    return run, results


def cupy(workload: Workload) -> tuple[Callable[[], None], Callable[[], list[np.ndarray]]]:
    import cupy

    f = workload.function(Library(cupy))
    arguments = [cupy.asarray(x) for x in workload.inputs()]
    result: list[Any] = [None]

    def run() -> None:
        result[0] = f(*arguments)
        cupy.cuda.Device().synchronize()

    return run, lambda: [cupy.asnumpy(result[0])]


IMPLEMENTATIONS: dict[str, Callable[[Workload], Any]] = {
    "numba_grad": numba_grad,
    "torch eager": lambda workload: torch(workload, compiled=False),
    "torch compile": lambda workload: torch(workload, compiled=True),
    "jax": jax,
    "cupy": cupy,
}


# Measuring


def measure(name: str, implementation: str, results_file: Path) -> dict[str, Any]:
    """In a process of its own: seconds of the first run, and of later ones."""
    workload = WORKLOADS[name]()
    turns = results_file.with_name("turns")
    with turn(turns, fcntl.LOCK_SH):
        run, results = IMPLEMENTATIONS[implementation](workload)
        began = time.perf_counter()
        run()
        first = time.perf_counter() - began
        run()
    times = []
    with turn(turns, fcntl.LOCK_EX):
        run()
        for _ in range(RUNS):
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
    np.savez(results_file, *[x.ravel()[:: max(1, x.size // SAMPLES)] for x in results()])
    return {"first": first, "median": statistics.median(times), "times": times}


@contextlib.contextmanager
def turn(file: Path, kind: int) -> Iterator[None]:
    """With all who prepare (LOCK_SH), or alone (LOCK_EX). Who waits to be alone stands in the gate,
    or others would begin to prepare all the time."""
    with file.with_suffix(".gate").open("a") as gate, file.open("a") as turns:
        fcntl.flock(gate, kind)
        fcntl.flock(turns, kind)
        fcntl.flock(gate, fcntl.LOCK_UN)
        yield


def in_a_process(name: str, implementation: str, folder: Path) -> dict[str, Any]:
    file = folder / f"{name} {implementation}.npz".replace(" ", "_")
    command = [sys.executable, __file__, name, "--worker", implementation, "--results", str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"reason": f"took more than {LIMIT:.0f} s"}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"reason": last[:200]}
    return {**json.loads(done.stdout.splitlines()[-1]), "file": str(file)}


def compared(rows: dict[str, dict[str, Any]], tolerance: float) -> None:
    """Replace the time of whoever finds something else than the first one by a reason."""
    reference: list[np.ndarray] | None = None
    for row in rows.values():
        if "file" not in row:
            continue
        with np.load(row.pop("file")) as archive:
            found = [archive[key] for key in archive.files]
        if reference is None:
            reference = found
        for x, y in zip(found, reference, strict=True):
            scale = np.abs(y).max() or 1.0
            if not np.abs(x - y).max() <= tolerance * scale:
                row.clear()
                row["reason"] = "other results"
                break


def run_all(names: list[str], folder: Path, at_once: int) -> dict[str, Any]:
    def found(name: str, implementation: str) -> dict[str, Any]:
        row = in_a_process(name, implementation, folder)
        text = row.get("median", row.get("reason"))
        print(f"{name}: {implementation}: {text}", file=sys.stderr, flush=True)
        return row

    workloads: dict[str, Any] = {}
    with ThreadPoolExecutor(at_once) as processes:
        pending = {
            name: {peer: processes.submit(found, name, peer) for peer in WORKLOADS[name]().peers}
            for name in names
        }
    for name in names:
        workload = WORKLOADS[name]()
        rows = {implementation: row.result() for implementation, row in pending[name].items()}
        compared(rows, workload.tolerance)
        workloads[name] = {
            "title": workload.title,
            "minimal bytes": workload.minimal_bytes,
            "rows": rows,
        }
    return workloads


def first_call() -> float:
    """Seconds of a process from its start to its end, which computes one gradient on the GPU by
    kernels that are in the cache."""
    command = [sys.executable, str(ROOT / "perf" / "fresh_process.py"), "numba_grad on a GPU"]
    times = []
    for _ in range(1 + PROCESSES):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])  # the first one may have compiled


# Predicting


def predicted(name: str, architecture: str) -> dict[str, Any]:
    """What the compiler says of the program, for a GPU that is not there."""
    import numba_grad as ng
    from numba_grad.compiler.cuda import costs
    from numba_grad.frontend.tensors.tensor import Tensor
    from numba_grad.graph.node import argument
    from numba_grad.graph.types import array_type
    from numba_grad.runtime.cuda.driver import install
    from numba_grad.runtime.cuda.interface import Driver, MemoryInfo

    class NoDriver(Driver):
        """Only tells what to compile for."""

        def device_count(self) -> int:
            return 1

        def architecture(self, device: int) -> str:
            return architecture

        def memory_info(self, device: int) -> MemoryInfo:
            return MemoryInfo(MEMORY, MEMORY, 0, 0, 0)

    assert ng.cuda.Stream  # from here on there are GPUs to compile for
    install(NoDriver())
    workload = WORKLOADS[name]()
    types = [array_type(x.shape, x.dtype, "cuda:0") for x in (workload.shapes or workload.inputs)()]
    f = ng.jit(numba_grad_function(workload))
    began = time.perf_counter()
    lowered = f.lower(*[Tensor(argument(type)) for type in types])
    kernels = lowered.kernels
    seconds = time.perf_counter() - began
    nbytes = sum(kernel.nbytes for kernel in kernels)
    launches = sum(kernel.count for kernel in kernels)
    flops = sum(kernel.flops for kernel in kernels)
    rate = costs.OPERATIONS * (1 if types[0].dtype.itemsize == 8 else 2)
    return {
        "title": workload.title,
        "minimal bytes": workload.minimal_bytes,
        "bytes": nbytes,
        "operations": flops,
        "launches": launches,
        "kernels": len(kernels),
        "registers": [kernel.registers for kernel in kernels],
        "spilled bytes": sum(kernel.spilled_bytes for kernel in kernels),
        "occupancy": [kernel.occupancy().share for kernel in kernels],
        "seconds": max(nbytes / costs.BANDWIDTH, flops / rate, launches * costs.LAUNCH),
        "seconds to compile": seconds,
    }


# Reporting


def described(is_predicted: bool) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": commit(),
        "versions": {package: version(package) for package in PACKAGES},
        "measured on": "nothing: predicted from bytes, launches and ptxas's figures",
    }
    if not is_predicted:
        import numba_grad as ng

        properties = ng.cuda.get_device_properties()
        facts["measured on"] = properties.name
        facts["memory bandwidth"] = properties.memory_bandwidth
    return facts


def as_table(report: dict[str, Any]) -> str:
    lines = [f"measured on {report['measured on']}"]
    if FIRST_CALL in report:
        lines.append(f"a process with one gradient, from the cache: {report[FIRST_CALL]:.2f} s")
    for found in report["workloads"].values():
        if "rows" not in found:
            least = found["minimal bytes"]
            share = f" ({least / found['bytes']:.0%} of them needed)" if least else ""
            lines.append(
                f"{found['title']:<50} {found['launches']:>5} launches {found['bytes'] / 1e9:>8.2f}"
                f" GB{share}, {max(found['registers'])} registers, "
                f"{found['spilled bytes']} spilled: {found['seconds'] * 1e3:.3f} ms predicted"
            )
            continue
        lines.append(found["title"])
        for implementation, row in found["rows"].items():
            if "reason" in row:
                lines.append(f"    {implementation:<14} {row['reason']}")
                continue
            rate = found["minimal bytes"] / row["median"] / 1e12
            bandwidth = f"{rate:>6.2f} TB/s of minimal bytes, " if rate else ""
            lines.append(
                f"    {implementation:<14} {row['median'] * 1e3:>10.3f} ms  {bandwidth}"
                f"first run {row['first']:.2f} s"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=", ".join([*WORKLOADS, FIRST_CALL]))
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--predict", metavar="ARCHITECTURE", help="without a GPU: sm_90")
    parser.add_argument(
        "--at-once", type=int, default=1, help="processes that prepare side by side"
    )
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--results", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    all_names = [*WORKLOADS, *(() if arguments.predict else (FIRST_CALL,))]
    names = arguments.names or all_names
    unknown = [name for name in names if name not in all_names]
    if unknown:
        parser.error(f"no workload {unknown[0]!r}; there are {', '.join(all_names)}")
    if arguments.worker:
        print(json.dumps(measure(names[0], arguments.worker, arguments.results)))
        return
    report = described(bool(arguments.predict))
    if arguments.predict:
        report["workloads"] = {name: predicted(name, arguments.predict) for name in names}
    else:
        import tempfile

        if FIRST_CALL in names:
            report[FIRST_CALL] = first_call()
            names = [name for name in names if name != FIRST_CALL]
        with tempfile.TemporaryDirectory() as folder:
            report["workloads"] = run_all(names, Path(folder), arguments.at_once)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))
    print(as_table(report))


if __name__ == "__main__":
    main()
