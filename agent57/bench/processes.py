"""Titles, memory and core time of the processes of a run, from /proc."""

import json
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

KINDS = ("ActorWorker", "ShardWorker", "LearnerWorker", "EvaluatorWorker", "driver", "Ray")
PAGE, TICK = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_CLK_TCK")


def descendants(root: int) -> dict[int, str]:
    """Return all descendants of a process, with their titles."""
    parents, titles = {}, {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            stat = (path / "stat").read_text()
            titles[int(path.name)] = (path / "cmdline").read_bytes().split(b"\0")[0].decode()
        except OSError:
            continue
        parents[int(path.name)] = int(stat.rpartition(")")[2].split()[1])
    found = {root: "driver"}
    grown = True
    while grown:
        new = {p: titles[p] for p, q in parents.items() if q in found and p not in found}
        found |= new
        grown = bool(new)
    return {pid: kind_of(title) for pid, title in found.items()}


def title_of(pid: int) -> str:
    """Return the command line of a process, or the title it has given itself."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
    except OSError:
        return ""


def identity(pid: int) -> str:
    """Return the start time of a process, which no later process shares; "" if it is dead."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    is_dead = fields[0] in "ZX"
    return "" if is_dead else fields[19]


def kind_of(title: str) -> str:
    """Return the kind of a process with this title."""
    return next((kind for kind in KINDS if kind in title), "Ray")


def resident(pid: int) -> int:
    """Return the bytes of RAM of a process, including shared memory."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


def shared(pid: int) -> int:
    """Return the bytes of shared RAM of a process: libraries, and objects in Ray's store."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[2]) * PAGE
    except (OSError, IndexError):
        return 0


def core_seconds(pid: int) -> float:
    """Return the core seconds of a process so far."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK
    except (OSError, IndexError):
        return 0.0


def by_kind(pids: dict[int, str], measure: Callable[[int], float]) -> dict[str, float]:
    """Sum a measure over the processes of each kind; a kind without any is 0."""
    total: dict[str, float] = defaultdict(float)
    for pid, kind in pids.items():
        total[kind] += measure(pid)
    return total


def newest(file: Path) -> dict[str, Any]:
    """Return the last whole line of a file of JSON lines."""
    try:
        line: dict[str, Any] = json.loads(file.read_text().splitlines()[-1])
    except (OSError, IndexError, ValueError):
        return {}
    return line
