"""Measure every part of the agent in turn, in one run."""

import dataclasses
import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from agent57.allocator import keep_freed_memory
from agent57.bench.acting import Emulators, acting, flops_of_a_step, novelty
from agent57.bench.cost import Result
from agent57.bench.effort import Plan
from agent57.bench.learning import CPU, learning
from agent57.bench.limits import Limits
from agent57.bench.replaying import bytes_per_transition, recordings, storing
from agent57.bench.sharing import sharing
from agent57.bench.training import end_to_end
from agent57.compilation import has_compiler
from agent57.config import ReplayConfig
from agent57.precision import has_bfloat16
from agent57.storage.folder import write_json
from agent57.storage.machine import processor


@dataclasses.dataclass(frozen=True, kw_only=True)
class Report:
    """Everything one run of the benchmark found."""

    machine: dict[str, Any]
    limits: dict[str, float]
    parts: list[Result]
    scaling: dict[str, list[Result]]  # by what was scaled
    bytes_per_transition: dict[str, float]

    def write(self, path: Path) -> None:
        """Save as JSON."""
        write_json(path, dataclasses.asdict(self))


def run_bench(plan: Plan, tell: Callable[[str], None]) -> Report:
    """Measure everything; about three minutes on two cores for the full plan.

    `tell` is called with the name of each part before it is measured.
    """
    keep_freed_memory()
    begun, num_threads = time.monotonic(), torch.get_num_threads()
    torch.set_num_threads(max(plan.threads))
    try:
        tell("limits of this machine")
        return _measure(plan, tell, begun)
    finally:
        torch.set_num_threads(num_threads)


def _measure(plan: Plan, tell: Callable[[str], None], begun: float) -> Report:
    first, limits = plan.scales[0], Limits(plan.seconds)
    brief = replace(plan, repeats=plan.scaling_repeats)
    rates = {
        "sgemm GFLOP/s": 1e-9 / limits.flop().wall,
        "memory read GB/s": 1e-9 / limits.byte().wall,
    }
    tell("acting")
    emulators = Emulators(plan.main_lanes)
    flops = {scale: flops_of_a_step(scale) for scale in plan.scales}
    act = [
        acting(plan, limits, emulators, scale, plan.main_lanes, flops[scale])
        for scale in plan.scales
    ]
    tell("novelty")
    by_memory = [novelty(brief, limits, memory) for memory in plan.memories[:-1]]
    by_memory.append(novelty(plan, limits, plan.memories[-1]))
    tell("replay")
    recorded = recordings(plan)
    replay = storing(plan, recorded, ReplayConfig())
    sizes = bytes_per_transition(recorded)
    del recorded
    tell("learning")
    learn = [learning(plan, limits, scale) for scale in plan.scales]
    if has_bfloat16(CPU):
        learn.append(learning(plan, limits, first, precision="bfloat16", flops=learn[0].flops))
    if plan.compiled and has_compiler():
        tell("learning, compiled (compiling alone takes half a minute)")
        learn.append(learning(plan, limits, first, is_compiled=True, flops=learn[0].flops))
    tell("end to end")
    whole = [end_to_end(plan, scale) for scale in plan.scales]
    tell("scaling")
    main = {plan.main_lanes: act[0]}
    by_lanes = [
        main.get(n) or acting(brief, limits, emulators, first, n, flops[first]) for n in plan.lanes
    ]
    by_threads = _by_threads(brief, emulators, flops[first], act[0], learn[0])
    emulators.close()
    tell("shared networks")
    by_sharing = [result for scale in plan.scales for result in sharing(plan, scale)]
    rates["sgemm GFLOP/s afterwards"] = 1e-9 / limits.flop().wall
    return Report(
        machine=_machine(time.monotonic() - begun),
        limits=rates,
        parts=[*act, by_memory[-1], *replay, *learn, *whole],
        scaling={
            "lanes": by_lanes,
            "episodic memory": by_memory,
            "threads": by_threads,
            "sharing a torso and core (limit: separate networks)": by_sharing,
        },
        bytes_per_transition=sizes,
    )


def _by_threads(
    plan: Plan, emulators: Emulators, flops: float, act: Result, learn: Result
) -> list[Result]:
    """Acting and learning with fewer torch threads; the emulators keep their own threads."""
    scale, results = plan.scales[0], []
    for threads in plan.threads:
        found = [act, learn]
        if threads != max(plan.threads):
            torch.set_num_threads(threads)
            limits = Limits(plan.seconds)  # measured with the same number of threads
            found = [
                acting(plan, limits, emulators, scale, plan.main_lanes, flops),
                learning(plan, limits, scale, flops=learn.flops),
            ]
        results += [replace(result, setting=f"{threads} threads") for result in found]
    torch.set_num_threads(max(plan.threads))
    return results


def _machine(seconds: float) -> dict[str, str]:
    return {
        "processor": processor(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": str(torch.get_num_threads()),
        "seconds": f"{seconds:.0f}",
    }
