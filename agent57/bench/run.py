"""`agent57 bench`: every part in turn, in one run."""

import os
import platform
import time
from dataclasses import replace

import torch
from rich.console import Console

from agent57.bench.acting import acting, novelty
from agent57.bench.cost import Result
from agent57.bench.learning import learning
from agent57.bench.limits import Limits
from agent57.bench.plan import Plan
from agent57.bench.replay import bytes_per_transition, recordings, storing
from agent57.bench.report import Report
from agent57.bench.whole import end_to_end
from agent57.compilation import has_compiler
from agent57.runtime.memory import keep_freed_memory


def run_bench(plan: Plan, console: Console) -> Report:
    """Measure everything; about three minutes on two cores for the full plan."""
    keep_freed_memory()
    torch.set_num_threads(max(plan.threads))
    begun = time.monotonic()
    parts: list[Result] = []
    with console.status("limits of this machine") as status:
        limits = Limits(plan.seconds)
        rates = {
            "sgemm GFLOP/s": 1e-9 / limits.flop().wall,
            "memory read GB/s": 1e-9 / limits.byte().wall,
        }
        for scale in plan.scales:
            status.update(f"acting, {scale} size")
            parts.append(acting(plan, limits, scale, plan.main_lanes))
        status.update("novelty")
        by_memory = [novelty(plan, limits, memory) for memory in plan.memories]
        parts.append(by_memory[-1])
        status.update("replay")
        recorded = recordings(plan)
        parts += storing(plan, recorded)
        sizes = bytes_per_transition(recorded)
        for scale in plan.scales:
            status.update(f"learning, {scale} size")
            parts.append(learning(plan, limits, scale, is_compiled=False))
        if plan.compiled and has_compiler():
            status.update("learning, compiled (compiling takes most of a minute)")
            parts.append(learning(plan, limits, plan.scales[0], is_compiled=True))
        for scale in plan.scales:
            status.update(f"end to end, {scale} size")
            parts.append(end_to_end(plan, scale))
        status.update("scaling")
        scaling = {
            "lanes": [acting(plan, limits, plan.scales[0], lanes) for lanes in plan.lanes],
            "episodic memory": by_memory,
            "threads": _by_threads(plan),
        }
        rates["sgemm GFLOP/s afterwards"] = 1e-9 / limits.flop().wall
    return Report(
        machine=_machine(time.monotonic() - begun),
        limits=rates,
        parts=parts,
        scaling=scaling,
        bytes_per_transition=sizes,
    )


def _by_threads(plan: Plan) -> list[Result]:
    """Acting and learning with fewer threads of torch; the emulators keep theirs."""
    scale, results = plan.scales[0], []
    for threads in plan.threads:
        torch.set_num_threads(threads)
        limits = Limits(plan.seconds)  # of as many threads
        found = [
            acting(plan, limits, scale, plan.main_lanes),
            learning(plan, limits, scale, is_compiled=False),
        ]
        results += [replace(result, note=f"{threads} threads; {result.note}") for result in found]
    torch.set_num_threads(max(plan.threads))
    return results


def _machine(seconds: float) -> dict[str, str]:
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
        "seconds": f"{seconds:.0f}",
    }


def _processor() -> str:
    """Its name as the system gives it."""
    try:
        with open("/proc/cpuinfo") as lines:
            return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
