"""Does bad things to runs at random, for as long as you like, and prints a table of outcomes.

    python trials/chaos.py --minutes 60              # before a release
    python trials/chaos.py --rounds 1 --only kill,damage

Each try does one bad thing to a run and then checks the promises of docs/RELIABILITY.md: the run
ends exactly like an undisturbed run, or a command ends with one line and no traceback. Tries of all
kinds take turns, in one process and on a cluster. If a promise was broken, the exit code is 1 and
the folder of the try is kept.

A busy machine must not look like a fault: limits grow with the time that starts take here and now.
A run that fails to start, and says so in one line, is counted as skipped.
"""

import argparse
import contextlib
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agent57.bench.processes import descendants, identity, newest, title_of  # noqa: E402
from agent57.replay.block import Block  # noqa: E402
from agent57.runtime.run import STOPPED  # noqa: E402
from agent57.storage.checkpoint import CheckpointStore  # noqa: E402
from tests.runtime import broken_envs  # noqa: E402
from tests.runtime.runs import difference, result  # noqa: E402
from tests.runtime.test_strangers import (  # noqa: E402
    EVIL,
    change_config,
    change_state,
    forge_blocks,
    grown,
)

TASK = "tests.runtime.broken_envs:agent57/Broken-v0"
SMALL = [
    "--scale", "tiny", "--run.threads", "1", "--run.log_frames", "60",
    "--run.checkpoint_seconds", "0.2", "--run.checkpoints_kept", "3", "--replay.min_windows", "4",
    "--learner.batch_size", "4", "--sequence.trace_length", "8", "--sequence.replay_period", "4",
    "--network.state_size", "8", "--network.feature_size", "8", "--network.head_size", "8",
]  # fmt: skip
OPTIONS = ["train", "--env", TASK, *SMALL, "--actor.lanes", "3"]
FRAMES, CLUSTER_FRAMES, NEVER_ENDING = 300, 600, 10**6
CLUSTER_OPTIONS = [
    "train", "--env", TASK, *SMALL, "--runtime", "cluster", "--actors", "2",
    "--lanes-per-actor", "2",
]  # fmt: skip
SLOW_STARTS = ("Ray could not be started:", "no answer within", "no actor came up within")
LEFTOVER_SECONDS = 45.0  # how long cluster processes may outlive their driver
MOST_LIVES = 200


class Pace:
    """Limits for waiting, derived from the slowest start of a run so far."""

    start_seconds = 0.0  # from the command to the first line of metrics

    def note(self, seconds: float) -> None:
        """Note how long a start took."""
        self.start_seconds = max(self.start_seconds, seconds)

    @property
    def answer_seconds(self) -> float:
        """Give an answer on a cluster the time of two starts: the learner starts before it."""
        return round(max(20.0, 2 * self.start_seconds))

    @property
    def life_seconds(self) -> float:
        """Give any process the time of many starts and of a few answers."""
        return max(600.0, 10 * self.start_seconds + 4 * self.answer_seconds)

    @property
    def stop_seconds(self) -> float:
        """Give a hanging run the 25 s that are promised, and time to exit."""
        return 25.0 + max(35.0, self.start_seconds)


PACE = Pace()


class Broken(Exception):
    """A promise that was not kept."""


def live(args: list[str], log: Path, fault: Path, folder: Path) -> None:
    """Run a command of agent57 in a process, with its output in a file."""
    os.chdir(folder)
    os.environ[broken_envs.FAULT_FILE] = str(fault)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(handle, number)
    from agent57.cli import run

    code = 70
    try:
        code = run(args)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


class Skipped(Exception):
    """A try that could not be made; the message says why."""


class Try:
    """One try: its folder, and the processes that run in it."""

    def __init__(self, folder: Path, reference: Path, rng: random.Random) -> None:
        self.run = folder / "run"
        self.log = folder / "log"
        self.fault = folder / "fault"
        self.reference = reference
        self.rng = rng
        folder.mkdir(parents=True)
        self.log.touch()

    def start(self, *args: object) -> multiprocessing.process.BaseProcess:
        """Begin a command."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["agent57.runtime.run", "tests.runtime.runs"])
        words = [str(arg) for arg in args]
        folder = self.run if self.run.is_dir() else self.run.parent
        process = context.Process(target=live, args=(words, self.log, self.fault, folder))
        process.start()
        return process

    def begin(self, frames: int = FRAMES) -> multiprocessing.process.BaseProcess:
        """Begin the run, or resume it."""
        if (self.run / "config.json").exists():
            return self.start("resume", self.run, "--trust")
        return self.start(*OPTIONS, "--frames", frames, "--out", self.run)

    def end(self, process: multiprocessing.process.BaseProcess) -> int:
        """Wait for a process; it must not hang and must not show a traceback."""
        limit_seconds = PACE.life_seconds
        process.join(limit_seconds)
        if process.exitcode is None:
            process.kill()
            raise Broken(f"no end within {limit_seconds:g} s")
        if "Traceback (most recent call last)" in self.said():
            raise Broken("a traceback")
        return process.exitcode

    def said(self) -> str:
        """Return everything that the processes have printed so far."""
        return self.log.read_text(errors="replace")

    def finish(self) -> None:
        """Bring the run to its end, however often it was interrupted."""
        code = self.end(self.begin())
        if code:
            raise Broken(f"the run could not be finished: exit code {code}")

    def compare(self) -> str:
        """Compare with the undisturbed run."""
        found = difference(result(self.left_alone()), result(self.run))
        if found:
            raise Broken(f"the result differs in {found[:3]}")
        return "identical"

    def left_alone(self) -> Path:
        """Return the undisturbed run, which is trained at the first call."""
        if not self.reference.exists():
            begun = time.monotonic()
            options = ("--frames", FRAMES, "--out", self.reference)
            if self.end(self.start(*OPTIONS, *options)):
                raise Broken("the reference run failed")
            PACE.note(time.monotonic() - begun)
        return self.reference

    def copy_reference(self) -> None:
        """Begin with a finished run."""
        shutil.copytree(self.left_alone(), self.run)

    def wait_for_checkpoint(self, process: multiprocessing.process.BaseProcess) -> None:
        """Wait until one more checkpoint is committed, so that the run makes progress."""
        before = set(self.run.glob("checkpoints/*.json"))
        while process.is_alive() and not set(self.run.glob("checkpoints/*.json")) - before:
            time.sleep(0.01)


# What can happen


def kill(attempt: Try) -> str:
    """kill -9 at random moments."""
    return interrupt(attempt, signal.SIGKILL)


def stop(attempt: Try) -> str:
    """SIGTERM and Ctrl-C at random moments."""
    return interrupt(attempt, attempt.rng.choice([signal.SIGTERM, signal.SIGINT]))


def interrupt(attempt: Try, number: signal.Signals) -> str:
    """Interrupt a run several times, then let it end."""
    for life in range(MOST_LIVES):
        process = attempt.begin()
        if life < 4:
            if life % 2:
                attempt.wait_for_checkpoint(process)
            time.sleep(attempt.rng.uniform(0.0, 0.5))
            if process.is_alive():
                os.kill(process.pid or 0, number)
        code = attempt.end(process)
        if code == 0 and life >= 4:
            break
    return attempt.compare()


def hang(attempt: Try) -> str:
    """An environment that hangs, and SIGTERM."""
    process = attempt.begin()
    attempt.wait_for_checkpoint(process)
    attempt.fault.write_text(attempt.rng.choice(["hang", "deaf hang"]))
    time.sleep(1.0)
    begun = time.monotonic()
    if process.is_alive():
        os.kill(process.pid or 0, signal.SIGTERM)
    code = attempt.end(process)
    seconds = time.monotonic() - begun
    attempt.fault.unlink()
    if code == 0:
        return over_before(attempt)
    if seconds > PACE.stop_seconds:
        raise Broken(f"exit code {code} after {seconds:.0f} s")
    attempt.finish()
    return attempt.compare()


def over_before(attempt: Try) -> str:
    """Compare a run that had ended before the disturbance with the undisturbed run."""
    attempt.compare()
    return "over before it happened"


def fault(attempt: Try) -> str:
    """An environment that raises, exits, returns NaN or closes our files."""
    process = attempt.begin()
    attempt.wait_for_checkpoint(process)
    attempt.fault.write_text(attempt.rng.choice(["raise", "exit", "nan", "close files"]))
    code = attempt.end(process)
    attempt.fault.unlink()
    if code == 0:
        return over_before(attempt)
    attempt.finish()
    return attempt.compare()


def lost_folder(attempt: Try) -> str:
    """The run folder or its checkpoints are removed while it trains."""
    lost = attempt.rng.choice([attempt.run, attempt.run / "checkpoints"])
    process = attempt.begin(NEVER_ENDING if lost == attempt.run else FRAMES)
    attempt.wait_for_checkpoint(process)
    shutil.rmtree(lost, ignore_errors=True)
    code = attempt.end(process)
    if lost == attempt.run:
        if code == 0:
            raise Broken("a removed folder ended in exit code 0")
        return "one line"
    return attempt.compare()


def full_disk(attempt: Try) -> str:
    """A disk that is full for a while."""

    def fill(disk: Path, ballast: Path) -> None:
        attempt.end(attempt.begin())
        ballast.unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        attempt.finish()

    return on_small_disk(attempt, fill) or attempt.compare()


def on_small_disk(attempt: Try, act: Callable[[Path, Path], None]) -> str:
    """Disturb a run on a full disk of 3 MB; return "", or why this machine cannot do it."""
    disk = attempt.run.parent / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        return "skipped: needs the right to mount"
    try:
        whole, attempt.run = attempt.run, disk / "run"
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(attempt.rng.randrange(2_000_000, 2_600_000)))
        act(disk, ballast)
        shutil.copytree(attempt.run, whole)
        attempt.run = whole
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    return ""


def damage(attempt: Try) -> str:
    """A flipped bit, a cut or a hole in one file of a finished run; then every command."""
    attempt.copy_reference()
    damage_one_file(attempt)
    return every_command(attempt)


def damage_one_file(attempt: Try) -> None:
    """Flip a bit, cut, blank or remove, in one file of a run."""
    rng = attempt.rng
    file = any_file(attempt)
    content = bytearray(file.read_bytes())
    how = rng.choice(["bit", "cut", "hole", "gone"])
    place = rng.randrange(len(content))
    if how == "bit":
        content[place] ^= 1 << rng.randrange(8)
    elif how == "cut":
        del content[place:]
    else:
        content[place : place + 64] = bytes(len(content[place : place + 64]))
    file.unlink() if how == "gone" else file.write_bytes(content)


def forged(attempt: Try) -> str:
    """A sealed state in which something is missing or of another type; then every command."""
    attempt.copy_reference()
    forge_state(attempt)
    return every_command(attempt)


def forge_state(attempt: Try) -> None:
    """Change something in the state of every checkpoint, and write valid checksums."""
    depth = attempt.rng.randrange(3)
    change_state(attempt.run, lambda state: mutate(state, attempt.rng, depth))


def mutate(state: Any, rng: random.Random, depth: int) -> None:  # noqa: ANN401
    """Remove or replace something in nested dictionaries."""
    key = rng.choice(sorted(state, key=str))
    if depth and isinstance(state[key], dict) and state[key]:
        mutate(state[key], rng, depth - 1)
    elif rng.random() < 0.5:
        del state[key]
    else:
        state[key] = rng.choice([None, [1], "x", {"a": 1}])


def stranger(attempt: Try) -> str:
    """A folder with code, links, pipes, wrong types or files that would grow; every command."""
    attempt.copy_reference()
    how = attempt.rng.choice([foreign_module, pipe, link, wrong_type, bomb])
    return how(attempt)


def foreign_module(attempt: Try) -> str:
    """A module beside the run must not be imported, without --trust."""
    change_config(attempt.run, "env", "name", "evil_chaos:X-v0")
    (attempt.run / "evil_chaos.py").write_text(EVIL)
    outcome = every_command(attempt, trust=False)
    if (attempt.run / "executed").exists():
        raise Broken("a module of the folder was imported")
    return outcome


def pipe(attempt: Try) -> str:
    """A pipe in place of a file must not be waited for."""
    file = any_file(attempt)
    file.unlink()
    os.mkfifo(file)
    return every_command(attempt)


def link(attempt: Try) -> str:
    """Nothing outside the folder may be written through a link in it."""
    file, outside = any_file(attempt), attempt.run.parent / "outside"
    shutil.move(file, outside)
    file.symlink_to(outside)
    before = outside.read_bytes()
    outcome = every_command(attempt)
    if outside.read_bytes() != before:
        raise Broken(f"{file.name} was written through a link")
    return outcome


def wrong_type(attempt: Try) -> str:
    """A field of config.json that has a value of another type."""
    values = json.loads((attempt.run / "config.json").read_text())
    section = attempt.rng.choice([name for name in values if isinstance(values[name], dict)])
    name = attempt.rng.choice(sorted(values[section]))
    change_config(attempt.run, section, name, attempt.rng.choice([1.5, "x", None, [1], {}, -1]))
    return every_command(attempt)


def bomb(attempt: Try) -> str:
    """Blocks that would unpack to a quarter of a gigabyte each."""
    forge_blocks(attempt.run, grown)
    return every_command(attempt)


def any_file(attempt: Try) -> Path:
    """Choose a file of the run that is not empty."""
    files = [f for f in attempt.run.rglob("*") if f.is_file() and f.stat().st_size]
    return attempt.rng.choice(sorted(files))


def every_command(attempt: Try, *, trust: bool = True) -> str:
    """Evaluate, report, export and resume: each ends, with success or one line."""
    csv, trusted = attempt.run.parent / "a.csv", ["--trust"] if trust else []
    codes = [
        attempt.end(attempt.start(*command))
        for command in (
            ("evaluate", attempt.run, "--episodes", 1, *trusted),
            ("report", attempt.run),
            ("export", attempt.run, "--csv", csv),
            ("resume", attempt.run, *trusted),
        )
    ]
    if not set(codes) <= {0, 1, 2}:
        raise Broken(f"exit codes {codes}")
    return "used what is whole" if codes[-1] == 0 else "refused in one line"


# What can happen to a cluster


class ClusterTry:
    """A run on a Ray of its own, in a folder of its own."""

    def __init__(self, attempt: Try) -> None:
        self.attempt = attempt
        self.run = attempt.run
        self.rng = attempt.rng
        self.num_slow_starts = 0
        self._family: dict[int, str] = {}  # every process of the run ever seen, with its identity

    def begin(self, frames: int = CLUSTER_FRAMES) -> subprocess.Popen[bytes]:
        """Begin the run, or resume it."""
        python = [sys.executable, "-m", "agent57"]
        limit = ("--cluster.answer_seconds", str(PACE.answer_seconds))
        command = [*python, *CLUSTER_OPTIONS, *limit, "--frames", str(frames), "--out"]
        if (self.run / "config.json").exists():
            command = [*python, "resume", "--trust"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
        environment[broken_envs.FAULT_FILE] = str(self.attempt.fault)
        command.append(str(self.run))
        with self.attempt.log.open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=ROOT)

    def under_way(self, frames: int = CLUSTER_FRAMES) -> subprocess.Popen[bytes]:
        """Begin the run; wait until it has written lines of metrics and a checkpoint."""
        limit_seconds, begun = PACE.life_seconds, time.monotonic()
        driver = self.begin(frames)
        while not (newest(self.run / "metrics.jsonl") and self._checkpoints()):
            if driver.poll() is not None:
                if self._is_slow_start():
                    raise Skipped("the machine is too busy for a cluster to start")
                raise Broken(f"exit code {driver.poll()} before anything happened")
            if time.monotonic() - begun > limit_seconds:
                self._kill(driver)
                raise Broken(f"no line of metrics within {limit_seconds:g} s")
            self._look(driver)
        PACE.note(time.monotonic() - begun)
        return driver

    def _look(self, driver: subprocess.Popen[bytes]) -> None:
        """Wait briefly, and note the processes of the run."""
        time.sleep(0.3)
        self._family |= {pid: identity(pid) for pid in descendants(driver.pid)}

    def _is_slow_start(self) -> bool:
        """Return whether the last life ended because something did not start within its limit."""
        last = " ".join(self.said()[-500:].split())
        return any(text in last for text in SLOW_STARTS)

    def _checkpoints(self) -> list[Path]:
        return list(self.run.glob("checkpoints/*.json"))

    def process(self, driver: subprocess.Popen[bytes], *kinds: str) -> int:
        """Choose a process of the run whose title holds one of these words."""
        found = [
            pid
            for pid in descendants(driver.pid)
            if pid != driver.pid and any(kind in title_of(pid) for kind in kinds)
        ]
        if not found:
            raise Broken(f"no process is a {' or '.join(kinds)}")
        return self.rng.choice(found)

    def end(self, driver: subprocess.Popen[bytes]) -> int:
        """Wait for the run; it must not hang, show a traceback or leave processes behind."""
        limit_seconds, begun = PACE.life_seconds, time.monotonic()
        while driver.poll() is None:
            if time.monotonic() - begun > limit_seconds:
                self._kill(driver)
                raise Broken(f"no end within {limit_seconds:g} s")
            self._look(driver)
        if "Traceback (most recent call last)" in self.said():
            raise Broken("a traceback")
        self._check_leftovers()
        return driver.returncode

    def _check_leftovers(self) -> None:
        """Check that all processes of the run end soon after its driver."""
        end = time.monotonic() + LEFTOVER_SECONDS
        while left := [pid for pid, who in self._family.items() if who and identity(pid) == who]:
            if time.monotonic() > end:
                titles = ", ".join(title_of(pid) for pid in left)
                raise Broken(f"{titles} live on after {LEFTOVER_SECONDS:g} s")
            time.sleep(0.2)
        self._family = {}

    def kill(self, driver: subprocess.Popen[bytes]) -> None:
        """kill -9 of the driver; its processes must end with it."""
        self._look(driver)
        self._kill(driver)
        self._check_leftovers()

    def _kill(self, driver: subprocess.Popen[bytes]) -> None:
        driver.kill()
        driver.wait()

    def said(self) -> str:
        """Return everything that the run has printed so far."""
        return self.attempt.said()

    def finish(self, driver: subprocess.Popen[bytes] | None = None) -> dict[str, Any]:
        """Bring the run to its end, check its counts, and return its last line of metrics."""
        while code := self.end(driver or self.begin()):
            driver, self.num_slow_starts = None, self.num_slow_starts + 1
            if not self._is_slow_start():
                raise Broken(f"the run could not be finished: exit code {code}")
            if self.num_slow_starts == 3:
                raise Skipped("the machine is too busy for a cluster to start again")
        lines = (self.run / "metrics.jsonl").read_text().splitlines()
        frames = [json.loads(line)["frames"] for line in lines]
        if frames != sorted(set(frames)) or frames[-1] < CLUSTER_FRAMES:
            raise Broken(f"the frames of the metrics are {frames[-5:]}")
        self.check_counts()
        return json.loads(lines[-1])

    def finished(self, outcome: str = "finished, counts right") -> str:
        """Bring the run to its end; return what became of it."""
        self.finish()
        return outcome

    def check_counts(self) -> None:
        """Check that each step counts once: as in the replay, as waiting or as lost."""
        checkpoint = CheckpointStore(self.run / "checkpoints", keep=9).load()
        if checkpoint is None or checkpoint.damaged:
            raise Broken("the last checkpoint is not whole")
        parts = checkpoint.state["parts"]
        held = sum(Block.from_bytes(block).length for _, block in checkpoint.blocks)
        waiting = sum(actor["waiting"] for actor in parts["actors"])
        totals = parts["tally"]
        if held + waiting + totals["lost_transitions"] != totals["steps"]:
            raise Broken(
                f"{totals['steps']} steps, but {held} held and {waiting} waiting: {totals}"
            )


def cluster_under_way(attempt: Try) -> tuple[ClusterTry, subprocess.Popen[bytes]]:
    """Return a run on a cluster after its first checkpoint, and its driver."""
    run = ClusterTry(attempt)
    return run, run.under_way()


def cluster_worker(attempt: Try) -> str:
    """Cluster: a process is killed, or stopped for ever."""
    run, driver = cluster_under_way(attempt)
    number = run.rng.choice([signal.SIGKILL, signal.SIGSTOP])
    victim = run.process(driver, "Worker")
    os.kill(victim, number)
    try:
        last = run.finish(driver)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)
    restarts = sum(value for name, value in last.items() if name.endswith("_restarts"))
    return f"replaced after {number.name}" if restarts else "over before it happened"


def cluster_driver(attempt: Try) -> str:
    """Cluster: kill -9 of the driver, resumed at once."""
    run, driver = cluster_under_way(attempt)
    time.sleep(run.rng.uniform(0.0, 2.0))
    run.kill(driver)
    return run.finished()


def cluster_stop(attempt: Try) -> str:
    """Cluster: SIGTERM or Ctrl-C."""
    run, driver = cluster_under_way(attempt)
    driver.send_signal(run.rng.choice([signal.SIGTERM, signal.SIGINT]))
    code = run.end(driver)
    if code not in (0, STOPPED):
        raise Broken(f"exit code {code}")
    return run.finished()


def cluster_ray(attempt: Try) -> str:
    """Cluster: kill -9 of Ray's raylet or GCS."""
    run, driver = cluster_under_way(attempt)
    name = run.rng.choice(["raylet", "gcs_server"])
    os.kill(run.process(driver, f"/{name}"), signal.SIGKILL)
    code = run.end(driver)
    if code == 0:
        return "over before it happened"
    if not re.search("Ray's .* died|Ray failed|died", run.said()):
        raise Broken(f"exit code {code} without a line after the death of {name}")
    return run.finished("one line, then finished")


def cluster_hang(attempt: Try) -> str:
    """Cluster: all environments hang for a while."""
    run, driver = cluster_under_way(attempt)
    attempt.fault.write_text("hang")
    limit_seconds, begun = PACE.life_seconds, time.monotonic()
    while "counts as dead" not in run.said() and driver.poll() is None:
        if time.monotonic() - begun > limit_seconds:
            run.kill(driver)
            raise Broken("hung environments were never reported")
        time.sleep(0.1)
    attempt.fault.unlink()
    last = run.finish(driver)
    return "replaced" if last["cluster/actor_restarts"] else "over before it happened"


def cluster_hang_stop(attempt: Try) -> str:
    """Cluster: all environments hang, then SIGTERM."""
    run, driver = cluster_under_way(attempt)
    attempt.fault.write_text(run.rng.choice(["hang", "deaf hang"]))
    time.sleep(2.0)
    driver.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    code = run.end(driver)
    seconds = time.monotonic() - begun
    attempt.fault.unlink()
    if seconds > PACE.stop_seconds + LEFTOVER_SECONDS:
        raise Broken(f"exit code {code} after {seconds:.0f} s")
    if not run.said():
        raise Broken(f"exit code {code} without a line")
    return run.finished()


def cluster_fault(attempt: Try) -> str:
    """Cluster: an environment raises, exits or returns NaN."""
    run, driver = cluster_under_way(attempt)
    attempt.fault.write_text(run.rng.choice(["raise", "exit", "nan"]))
    code = run.end(driver)
    attempt.fault.unlink()
    if code == 0:
        return "over before it happened"
    return run.finished("one line, then finished")


def cluster_lost_folder(attempt: Try) -> str:
    """Cluster: the run folder or its checkpoints are removed while it trains."""
    run = ClusterTry(attempt)
    lost = run.rng.choice([run.run, run.run / "checkpoints"])
    driver = run.under_way(NEVER_ENDING if lost == run.run else CLUSTER_FRAMES)
    shutil.rmtree(lost, ignore_errors=True)
    if lost != run.run:
        run.finish(driver)
        return "finished, counts right"
    if run.end(driver) == 0:
        raise Broken("a removed folder ended in exit code 0")
    return "one line"


def cluster_full_disk(attempt: Try) -> str:
    """Cluster: the disk is full for a while."""

    def fill(disk: Path, ballast: Path) -> None:
        run = ClusterTry(attempt)
        run.end(run.begin())
        ballast.unlink()
        subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
        run.finish()

    return on_small_disk(attempt, fill) or "finished, counts right"


def cluster_damage(attempt: Try) -> str:
    """Cluster: a flipped bit, a cut or a hole in one file; then every command."""
    copy_cluster_reference(attempt)
    damage_one_file(attempt)
    return every_command(attempt)


def cluster_forged(attempt: Try) -> str:
    """Cluster: a sealed state in which something is missing or wrong; then every command."""
    copy_cluster_reference(attempt)
    forge_state(attempt)
    return every_command(attempt)


def copy_cluster_reference(attempt: Try) -> None:
    """Begin with a run that was finished on a cluster."""
    reference = attempt.reference.with_name("cluster-reference")
    if not reference.exists():
        run = ClusterTry(attempt)
        run.finish(run.under_way())
        run.run.rename(reference)
    shutil.copytree(reference, attempt.run)


KINDS: dict[str, Callable[[Try], str]] = {
    "kill": kill,
    "stop": stop,
    "hang": hang,
    "fault": fault,
    "lost_folder": lost_folder,
    "full_disk": full_disk,
    "damage": damage,
    "forged": forged,
    "stranger": stranger,
    "cluster_worker": cluster_worker,
    "cluster_driver": cluster_driver,
    "cluster_stop": cluster_stop,
    "cluster_ray": cluster_ray,
    "cluster_hang": cluster_hang,
    "cluster_hang_stop": cluster_hang_stop,
    "cluster_fault": cluster_fault,
    "cluster_lost_folder": cluster_lost_folder,
    "cluster_full_disk": cluster_full_disk,
    "cluster_damage": cluster_damage,
    "cluster_forged": cluster_forged,
}


def main(args: list[str] | None = None) -> int:
    """Try everything in turns until the time is over; return 1 if a promise was broken."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=0, help="end after so many tries of each")
    parser.add_argument("--only", default=",".join(KINDS), help="kinds, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    known = parser.parse_args(args)
    kinds = known.only.split(",")
    place = Path(tempfile.mkdtemp(prefix="chaos-"))
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    broken: list[str] = []
    begun, number = time.monotonic(), 0
    end = begun + 60 * known.minutes
    while time.monotonic() < end and not (known.rounds and number >= known.rounds):
        for kind in kinds:
            if time.monotonic() >= end:
                break
            folder = place / f"{kind}-{number}"
            rng = random.Random(f"{known.seed} {kind} {number}")
            try:
                outcome = KINDS[kind](Try(folder, place / "reference", rng))
                shutil.rmtree(folder, ignore_errors=True)
            except Skipped as error:
                outcome = f"skipped: {error}"
            except Broken as error:
                outcome = f"BROKEN: {error}"
                broken.append(str(folder))
            outcomes[kind][outcome] += 1
            minutes = (time.monotonic() - begun) / 60
            print(f"{minutes:.1f} min: {kind} {number}: {outcome}", flush=True)  # noqa: T201
        number += 1
    print(table(outcomes))  # noqa: T201
    minutes = (time.monotonic() - begun) / 60
    slowest = f"the slowest start took {PACE.start_seconds:.0f} s"
    print(f"{minutes:.0f} minutes without a break, {slowest}")  # noqa: T201
    print(f"broken promises: {', '.join(broken) or 'none'}")  # noqa: T201
    if not broken:
        shutil.rmtree(place, ignore_errors=True)
    return 1 if broken else 0


def table(outcomes: dict[str, Counter[str]]) -> str:
    """Return tries and outcomes of each kind, as Markdown."""
    rows = ["| what happened | tries | outcomes |", "|---|---|---|"]
    for kind, found in outcomes.items():
        text = ", ".join(f"{count} {outcome}" for outcome, count in found.most_common())
        rows.append(f"| {KINDS[kind].__doc__} | {sum(found.values())} | {text} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
