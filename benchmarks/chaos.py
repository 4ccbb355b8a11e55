"""Everything that can happen to a run, at random, for as long as you like: a table of outcomes.

    python benchmarks/chaos.py --minutes 60              # before a release
    python benchmarks/chaos.py --rounds 1 --only kill,damage

Each try does one bad thing to a run and then checks what docs/RELIABILITY.md promises: the run ends
exactly as one that was left alone, or a command ends with one line and no traceback. Tries of all
kinds take turns. The exit code is 1 if a promise was broken; the folders of such tries are kept.
"""

import argparse
import hashlib
import json
import multiprocessing
import os
import random
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

import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from agent57.storage.manifest import read_manifest, write_manifest  # noqa: E402
from tests.runtime import broken_envs  # noqa: E402
from tests.runtime.runs import difference, result  # noqa: E402

TASK = "tests.runtime.broken_envs:agent57/Broken-v0"
OPTIONS = [
    "train", "--env", TASK, "--scale", "tiny", "--frames", "300", "--run.threads", "1",
    "--run.log_frames", "60", "--run.checkpoint_seconds", "0.2", "--run.checkpoints_kept", "3",
    "--replay.min_windows", "4", "--learner.batch_size", "4", "--actor.lanes", "3",
    "--sequence.trace_length", "8", "--sequence.replay_period", "4", "--network.state_size", "8",
    "--network.feature_size", "8", "--network.head_size", "8", "--out",
]  # fmt: skip
LIMIT_SECONDS = 300.0  # that any life of a process may take on a busy machine
MOST_LIVES = 200


class Broken(Exception):
    """A promise that was not kept."""


def live(args: list[str], log: Path, fault: Path) -> None:
    """One life of a process: a command of agent57, with everything it says in a file."""
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


class Try:
    """A folder of its own, and the processes that live in it."""

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
        process = context.Process(target=live, args=(words, self.log, self.fault))
        process.start()
        return process

    def begin(self) -> multiprocessing.process.BaseProcess:
        """Begin the run, or go on with it."""
        if (self.run / "config.json").exists():
            return self.start("resume", self.run, "--trust")
        return self.start(*OPTIONS, self.run)

    def end(self, process: multiprocessing.process.BaseProcess) -> int:
        """Wait for a process; it must not hang and must not show a traceback."""
        process.join(LIMIT_SECONDS)
        if process.exitcode is None:
            process.kill()
            raise Broken(f"no end within {LIMIT_SECONDS:g} s")
        if "Traceback (most recent call last)" in self.log.read_text(errors="replace"):
            raise Broken("a traceback")
        return process.exitcode

    def finish(self) -> None:
        """Bring the run to its end, however often it was interrupted."""
        code = self.end(self.begin())
        if code:
            raise Broken(f"the run could not be finished: exit code {code}")

    def compare(self) -> str:
        """Compare with the run that was left alone."""
        if not self.reference.exists():
            reference = self.start(*OPTIONS, self.reference)
            if self.end(reference):
                raise Broken("the reference run failed")
        found = difference(result(self.reference), result(self.run))
        if found:
            raise Broken(f"the result differs in {found[:3]}")
        return "identical"

    def copy_reference(self) -> None:
        """Begin with a finished run."""
        if not self.reference.exists():
            self.end(self.start(*OPTIONS, self.reference))
        shutil.copytree(self.reference, self.run)

    def wait_for_checkpoint(self, process: multiprocessing.process.BaseProcess) -> None:
        """Until one more checkpoint is committed, so that a run gets on."""
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
    """Interrupt a run some times, then let it end."""
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
    os.kill(process.pid or 0, signal.SIGTERM)
    code = attempt.end(process)
    seconds = time.monotonic() - begun
    attempt.fault.unlink()
    if code == 0 or seconds > 60:
        raise Broken(f"exit code {code} after {seconds:.0f} s")
    attempt.finish()
    return attempt.compare()


def fault(attempt: Try) -> str:
    """An environment that raises, exits, returns NaN or closes our files."""
    process = attempt.begin()
    attempt.wait_for_checkpoint(process)
    attempt.fault.write_text(attempt.rng.choice(["raise", "exit", "nan", "close files"]))
    code = attempt.end(process)
    attempt.fault.unlink()
    if code == 0:
        raise Broken("a fault ended in exit code 0")
    attempt.finish()
    return attempt.compare()


def lost_folder(attempt: Try) -> str:
    """The run folder or its checkpoints are removed while it trains."""
    process = attempt.begin()
    attempt.wait_for_checkpoint(process)
    lost = attempt.rng.choice([attempt.run, attempt.run / "checkpoints"])
    shutil.rmtree(lost, ignore_errors=True)
    code = attempt.end(process)
    if lost == attempt.run:
        if code == 0:
            raise Broken("a removed folder ended in exit code 0")
        return "one line"
    return attempt.compare()


def full_disk(attempt: Try) -> str:
    """A disk that is full for a while."""
    disk = attempt.run.parent / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        return "skipped: needs the right to mount"
    try:
        whole, attempt.run = attempt.run, disk / "run"
        ballast = disk / "ballast"
        ballast.write_bytes(bytes(attempt.rng.randrange(2_000_000, 2_600_000)))
        attempt.end(attempt.begin())
        ballast.unlink()
        subprocess.run([*mount[:3], "-o", "remount,size=64m", "tmpfs", str(disk)], check=True)
        attempt.finish()
        shutil.copytree(attempt.run, whole)
        attempt.run = whole
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    return attempt.compare()


def damage(attempt: Try) -> str:
    """A flipped bit, a cut or a hole in one file of a finished run; then every command."""
    attempt.copy_reference()
    rng = attempt.rng
    file = rng.choice([f for f in attempt.run.rglob("*") if f.is_file() and f.stat().st_size])
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
    return every_command(attempt)


def forged(attempt: Try) -> str:
    """A sealed state in which something is missing or of another type; then every command."""
    attempt.copy_reference()
    for path in attempt.run.glob("checkpoints/*.json"):
        manifest = read_manifest(path)
        file = path.with_suffix(".state")
        state = torch.load(file, weights_only=True)
        mutate(state, attempt.rng, attempt.rng.randrange(3))
        torch.save(state, file)
        content = file.read_bytes()
        seal = hashlib.sha256(content).hexdigest()
        manifest["state"].update(bytes=len(content), sha256=seal)
        write_manifest(path, {k: v for k, v in manifest.items() if k != "format"})
    return every_command(attempt)


def mutate(state: Any, rng: random.Random, depth: int) -> None:  # noqa: ANN401
    """Remove or replace something in a nest of dictionaries."""
    key = rng.choice(sorted(state, key=str))
    if depth and isinstance(state[key], dict) and state[key]:
        mutate(state[key], rng, depth - 1)
    elif rng.random() < 0.5:
        del state[key]
    else:
        state[key] = rng.choice([None, [1], "x", {"a": 1}])


def every_command(attempt: Try) -> str:
    """Evaluate, report, export and resume: each ends, with success or one line."""
    csv = attempt.run.parent / "a.csv"
    codes = [
        attempt.end(attempt.start(*command))
        for command in (
            ("evaluate", attempt.run, "--episodes", 1, "--trust"),
            ("report", attempt.run),
            ("export", attempt.run, "--csv", csv),
            ("resume", attempt.run, "--trust"),
        )
    ]
    if not set(codes) <= {0, 1, 2}:
        raise Broken(f"exit codes {codes}")
    return "used what is whole" if codes[-1] == 0 else "refused in one line"


def cluster(attempt: Try) -> str:
    """A process of a cluster is killed, or stopped for ever."""
    command = [
        sys.executable, "-m", "agent57", *OPTIONS[:5], "--frames", "2000", *OPTIONS[7:-1],
        "--runtime", "cluster", "--actors", "3", "--cluster.answer_seconds", "60",
        "--out", str(attempt.run),
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    with attempt.log.open("ab") as log:
        driver = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=ROOT)
    deadline = time.monotonic() + LIMIT_SECONDS
    while not list(attempt.run.glob("checkpoints/*.json")) and driver.poll() is None:
        if time.monotonic() > deadline:
            driver.kill()
            raise Broken("no checkpoint")
        time.sleep(0.1)
    from benchmarks.soak import descendants

    workers = [pid for pid, kind in descendants(driver.pid).items() if kind.endswith("Worker")]
    if not workers or driver.poll() is not None:
        return "over before anything happened"
    victim = attempt.rng.choice(workers)
    number = attempt.rng.choice([signal.SIGKILL, signal.SIGSTOP])
    os.kill(victim, number)
    try:
        code = driver.wait(LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        driver.kill()
        raise Broken(f"no end after {number.name}") from None
    if "Traceback" in attempt.log.read_text(errors="replace"):
        raise Broken("a traceback")
    if code:
        raise Broken(f"exit code {code} after {number.name}")
    last = json.loads((attempt.run / "metrics.jsonl").read_text().splitlines()[-1])
    restarts = sum(v for k, v in last.items() if k.endswith("_restarts"))
    return "replaced" if restarts else "over before it was noticed"


KINDS: dict[str, Callable[[Try], str]] = {
    "kill": kill,
    "stop": stop,
    "hang": hang,
    "fault": fault,
    "lost_folder": lost_folder,
    "full_disk": full_disk,
    "damage": damage,
    "forged": forged,
    "cluster": cluster,
}


def main(args: list[str] | None = None) -> int:
    """Try everything in turns until the time is over; 1 if a promise was broken."""
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
    end, number = time.monotonic() + 60 * known.minutes, 0
    while time.monotonic() < end and not (known.rounds and number >= known.rounds):
        for kind in kinds:
            folder = place / f"{kind}-{number}"
            rng = random.Random(f"{known.seed} {kind} {number}")
            try:
                outcome = KINDS[kind](Try(folder, place / "reference", rng))
                shutil.rmtree(folder, ignore_errors=True)
            except Broken as error:
                outcome = f"BROKEN: {error}"
                broken.append(str(folder))
            outcomes[kind][outcome] += 1
            print(f"{kind} {number}: {outcome}", flush=True)  # noqa: T201
        number += 1
    print(table(outcomes))  # noqa: T201
    print(f"broken promises: {', '.join(broken) or 'none'}")  # noqa: T201
    if not broken:
        shutil.rmtree(place, ignore_errors=True)
    return 1 if broken else 0


def table(outcomes: dict[str, Counter[str]]) -> str:
    """Tries and outcomes of each kind, as Markdown."""
    rows = ["| what happened | tries | outcomes |", "|---|---|---|"]
    for kind, found in outcomes.items():
        text = ", ".join(f"{count} {outcome}" for outcome, count in found.most_common())
        rows.append(f"| {KINDS[kind].__doc__} | {sum(found.values())} | {text} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
