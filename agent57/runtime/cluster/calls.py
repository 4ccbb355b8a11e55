"""Processes on Ray, and the calls to them that are under way. No other module imports Ray.

Work is queued only as calls that have not been answered, so a limit on calls limits all queues.
This module does not know what the calls are about.
"""

import math
import os
import secrets
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import OutOfMemoryError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from agent57.config import Config, ConfigError, require
from agent57.runtime.cluster.orphans import agents_of, ended_with_this_process
from agent57.runtime.cluster.totals import Died, Gone, PartLost
from agent57.runtime.watchdog import end_process

Process = Any  # a handle whose type Ray makes at run time: process.method.remote(...)
Ref = Any  # reference to the future answer of a call

NAMESPACE = "agent57"
LEAST_STORE_BYTES = 2**28  # minimum size of Ray's store of objects
WAIT_SECONDS = 0.2  # longest wait for an answer before signals and the view get their turn
WATCH_SECONDS = 0.05  # between two checks of Ray's own processes
RAY_PROCESSES = ("raylet", "gcs_server")
START_ATTEMPTS = 3
STOP_SECONDS = 20.0  # time left for a call once the run was told to stop


class Calls:
    """Calls that are under way, each with the function that takes its answer.

    If a call takes longer than `limit_seconds`, its process counts as dead: reading the answer
    raises `Died`, and a late answer is dropped. Once `is_stopping`, a call has only STOP_SECONDS
    left.
    """

    def __init__(
        self,
        limit_seconds: float = math.inf,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.limit_seconds = limit_seconds
        self.num_answers = 0  # handled so far, including calls to dead processes
        self._warn = warn
        self._limited_since = 0.0  # when the limit was set, on the monotonic clock
        self._pending: dict[Ref, Callable[[Ref], None]] = {}
        self._begun: dict[Ref, tuple[float, str]] = {}  # time of each call, and whom it called
        self._patient: set[Ref] = set()
        self._overdue: set[Ref] = set()
        self._late: set[Ref] = set()  # patient calls that were reported
        self.is_stopping: Callable[[], bool] = lambda: False
        node = ray.get_runtime_context().get_node_id()
        self._here = NodeAffinitySchedulingStrategy(node, soft=False)

    def spawn(
        self, kind: type, *args: object, cpus: float = 0, gpus: float = 0, anywhere: bool = False
    ) -> Process:
        """Start a process on the driver's node, or on any node with enough free resources."""
        place = "SPREAD" if anywhere else self._here
        options = {"num_cpus": cpus, "num_gpus": gpus, "scheduling_strategy": place}
        return ray.remote(kind).options(**options).remote(*args)

    def expect(
        self, ref: Ref, act: Callable[[Ref], None], who: str, *, is_patient: bool = False
    ) -> None:
        """Call `act` when the answer of `who` has come or is overdue.

        Patient calls have no time limit, and `settle` does not wait for them.
        """
        self._pending[ref] = act
        self._begun[ref] = (time.monotonic(), who)
        if is_patient:
            self._patient.add(ref)

    @property
    def num_under_way(self) -> int:
        """Number of calls without an answer, not counting patient calls."""
        return len(self._pending) - self.num_patient

    @property
    def num_patient(self) -> int:
        """Number of patient calls, which may have to wait for room on a node."""
        return len(self._patient)

    @property
    def num_late(self) -> int:
        """Number of patient calls that have waited longer than the limit."""
        return len(self._late)

    def take_in(self) -> None:
        """Wait a little for an answer, then act on all answers that have come.

        Each wait looks at every pending call. Taking all answers at once keeps the cost per answer
        independent of the number of actors.
        """
        if not self._pending:
            return
        pending = list(self._pending)
        try:
            ready, _ = ray.wait(pending, num_returns=1, timeout=WAIT_SECONDS)
            if ready and len(pending) > 1:
                ready, _ = ray.wait(pending, num_returns=len(pending), timeout=0)
        except RayError as error:
            raise PartLost(f"Ray failed: {_first_line(error)}") from error
        for ref in (*ready, *self._take_overdue(ready)):
            self._patient.discard(ref)
            self._late.discard(ref)
            self._begun.pop(ref)
            self._pending.pop(ref)(ref)
            self._overdue.discard(ref)
            self.num_answers += 1

    def _take_overdue(self, ready: list[Ref]) -> list[Ref]:
        """Return the overdue calls that are not ready, and mark them as overdue."""
        found = [
            ref
            for ref, (begun, _) in self._begun.items()
            if ref not in self._patient and ref not in ready and self._has_expired(begun)
        ]
        advice = "raise cluster.answer_seconds if it is only slow"
        if self.is_stopping():
            advice = "the run stops without it"
        for who in dict.fromkeys(self._begun[ref][1] for ref in found):
            self._warn(
                f"{who} has not answered for {self.limit_seconds:g} s and counts as dead: {advice}"
            )
        self._overdue.update(found)
        self._report_late(ready)
        return found

    def _report_late(self, ready: list[Ref]) -> None:
        """Warn once for each patient call that has waited longer than the limit."""
        for ref in self._patient.difference(ready, self._late):
            begun, who = self._begun[ref]
            if self._has_expired(begun):
                self._late.add(ref)
                self._warn(
                    f"{who} has not come up for {self.limit_seconds:g} s: no node has a place for "
                    f"it, or its environment hangs; the run keeps waiting for it"
                )

    def _has_expired(self, begun: float) -> bool:
        if self.is_stopping() and self.limit_seconds > STOP_SECONDS:
            self.limit_seconds, self._limited_since = STOP_SECONDS, time.monotonic()
        return time.monotonic() - max(begun, self._limited_since) > self.limit_seconds

    def settle(self, *, patience: float = 0.0) -> None:
        """Wait for all answers and act on them, except patient calls.

        Patient calls are waited for until no answer has come for `patience` seconds.
        """
        last, num_pending = time.monotonic(), len(self._pending)
        while self.num_under_way or (self._pending and time.monotonic() - last < patience):
            self.take_in()
            if len(self._pending) != num_pending:
                last, num_pending = time.monotonic(), len(self._pending)

    def answer(self, ref: Ref, who: str = "a process") -> Any:  # noqa: ANN401
        """Return the answer of a call, or raise what the call raised."""
        return self.answers([ref], who)[0]

    def answers(self, refs: list[Ref], who: str = "a process") -> list[Any]:
        """Return the answers of some calls; raise `Died` or `Gone` if a call has no answer."""
        begun, missing = time.monotonic(), refs
        try:
            while missing and not self._overdue.intersection(refs):
                # Wait in short pieces, so that signals are handled in between.
                _, missing = ray.wait(
                    missing, num_returns=len(missing), timeout=WAIT_SECONDS, fetch_local=False
                )
                if missing and self._has_expired(begun):
                    self._overdue.update(missing)
                    self._warn(
                        f"{who} has not answered for {self.limit_seconds:g} s: going on without it"
                    )
            if self._overdue.intersection(refs):
                self._overdue.difference_update(missing)
                raise Died(f"no answer within {self.limit_seconds:g} s")
            return ray.get(refs)
        except RayTaskError as error:
            if isinstance(error.cause, RayError):
                raise Gone(_first_line(error.cause)) from error
            raise error.cause from error
        except (RayActorError, OutOfMemoryError) as error:
            raise Died(_first_line(error)) from error
        except RayError as error:
            raise Gone(_first_line(error)) from error

    def is_there(self, ref: Ref) -> bool:
        """Whether an answer has come."""
        ready, _ = ray.wait([ref], timeout=0)
        return bool(ready)

    def pause(self) -> None:
        """Sleep for a moment, while processes answer."""
        time.sleep(WAIT_SECONDS)

    def end(self, process: Process) -> None:
        """End a process, whether or not it is alive."""
        if process is not None:
            ray.kill(process)


@contextmanager
def connected(
    config: Config,
    address: str,
    store_bytes: int,
    warn: Callable[[str], None] = lambda _: None,
) -> Iterator[None]:
    """Join the Ray at `address`, or start a Ray on this machine that listens only on loopback.

    Ray's token authentication keeps its default, which is on for a Ray started here. A Ray started
    here ends with the run. If this process has already joined a Ray, it stays there.
    """
    if ray.is_initialized():
        yield
        return
    common: dict[str, Any] = {
        "namespace": NAMESPACE,
        "log_to_driver": False,
        "logging_level": "ERROR",
    }
    if address:
        try:
            waiting = {"env_vars": {"OMP_WAIT_POLICY": "PASSIVE"}}  # as the command line sets it
            ray.init(address=address, runtime_env=waiting, **common)
        except (ConnectionError, RuntimeError, ValueError) as error:
            text = f"the Ray at {address} cannot be joined: {_first_line(error)}"
            raise ConfigError(text) from error
    else:
        keep_token_private()
        needed = math.ceil(config.cluster.actors * config.cluster.actor_cpus)
        _start_ray(
            warn,
            num_cpus=max(needed, os.cpu_count() or 1),
            object_store_memory=store_bytes,
            include_dashboard=config.cluster.dashboard,
            **common,
        )
    is_over, processes = threading.Event(), own_processes()
    agents = agents_of(processes["raylet"].pid) if processes else []
    watch = (warn, processes, is_over)
    threading.Thread(target=_watch_ray, args=watch, name="ray", daemon=True).start()
    with ended_with_this_process(agents):
        try:
            yield
        finally:
            is_over.set()
            ray.shutdown()


def _start_ray(warn: Callable[[str], None], **options: Any) -> None:  # noqa: ANN401
    """Start a Ray here, with retries: its own limit of 30 s is too short on a busy machine."""
    for attempt in range(1, START_ATTEMPTS + 1):
        try:
            ray.init(address="local", **options)
            return
        except Exception as error:  # Ray raises `Exception` itself when it is too slow
            ray.shutdown()
            reason = _first_line(error)
            if attempt == START_ATTEMPTS:
                raise ConfigError(f"Ray could not be started: {reason}") from error
            warn(f"Ray could not be started and is tried again: {reason}")


def num_cores() -> float:
    """Return the number of cores of all machines of the cluster."""
    return float(ray.cluster_resources().get("CPU", 0))


def keep_token_private() -> None:
    """Make the access token of our Ray readable for this user only, as Ray itself does not."""
    if {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE"} & os.environ.keys():
        return  # the user manages the token
    file = Path.home() / ".ray" / "auth_token"
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with open(file, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as created:
            created.write(secrets.token_hex(32))
    except FileExistsError:
        if file.stat().st_uid == os.getuid():
            file.chmod(0o600)


def own_processes() -> dict[str, subprocess.Popen[bytes]]:
    """Return raylet and GCS of the Ray that this process started; empty if it joined a Ray."""
    node = getattr(ray._private.worker, "_global_node", None)
    return {
        name: info.process
        for name, infos in getattr(node, "all_processes", {}).items()
        for info in infos
        if name in RAY_PROCESSES
    }


def _watch_ray(
    warn: Callable[[str], None],
    processes: dict[str, subprocess.Popen[bytes]],
    is_over: threading.Event,
) -> None:
    """Explain the end of the run if one of Ray's own processes dies, then end this process.

    Ray itself would end this process without a reason.
    """
    while processes and not is_over.wait(WATCH_SECONDS):
        for name, process in processes.items():
            if process.poll() is not None and not is_over.is_set():
                warn(f"Ray's {name} died: the run ends; resume it from its last checkpoint")
                end_process()


def check_resources(config: Config, num_learner_gpus: int) -> str | None:
    """Refuse a cluster without room for the learners; return a warning if actors must wait."""
    there = ray.cluster_resources()
    require(
        there.get("GPU", 0) >= num_learner_gpus,
        f"the learners need {num_learner_gpus} GPUs, Ray has {there.get('GPU', 0):g}",
    )
    cluster = config.cluster
    for name, each in (("CPU", cluster.actor_cpus), ("GPU", cluster.actor_gpus)):
        taken = num_learner_gpus if name == "GPU" else 0
        room = int((there.get(name, 0) - taken) / each) if each else cluster.actors
        if room < cluster.actors:
            return (
                f"Ray has room for {room} of {cluster.actors} actors at {each:g} {name} each: the "
                f"others wait until nodes join, or lower cluster.actor_{name.lower()}s"
            )
    return None


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
