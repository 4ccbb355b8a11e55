"""Two Ray nodes with their own addresses, in network namespaces; one is killed and comes back.

Needs root and `ip`; run with `pytest -m slow tests/runtime/cluster/test_nodes.py`.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent57.runtime.cluster.ray_address import STARTED_HERE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and ip"),
]
BIN = Path(sys.executable).parent
NAMES, ADDRESSES = ("a57-one", "a57-two"), ("10.57.0.1", "10.57.0.2")
PORT = 6399
PATIENCE_SECONDS = 900


def ip(*args: str) -> str:
    done = subprocess.run(["ip", *args], check=True, capture_output=True, text=True)
    return done.stdout


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(1)
    raise AssertionError(f"waited in vain for {what}")


@pytest.fixture
def namespaces() -> Iterator[None]:
    """Make two network namespaces with a link between them, like two machines and a cable."""
    for name in NAMES:
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        ip("netns", "add", name)
    ip("link", "add", "a57-veth1", "netns", NAMES[0], "type", "veth", "peer", "a57-veth2",
       "netns", NAMES[1])  # fmt: skip
    for number, (name, address) in enumerate(zip(NAMES, ADDRESSES, strict=True), start=1):
        ip("-n", name, "addr", "add", f"{address}/24", "dev", f"a57-veth{number}")
        for device in ("lo", f"a57-veth{number}"):
            ip("-n", name, "link", "set", device, "up")
    yield
    for name in NAMES:
        end_all_in(name)
        ip("netns", "del", name)
    if STARTED_HERE.is_file() and STARTED_HERE.read_text().startswith(ADDRESSES[0]):
        STARTED_HERE.unlink()  # a Ray that was killed leaves its address file behind


def end_all_in(namespace: str) -> None:
    """End all processes of a namespace, as if its machine lost power."""
    for pid in ip("netns", "pids", namespace).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue


def actors_in(namespace: str) -> list[int]:
    """Return the processes of actors on one of the machines."""
    found = []
    for pid in ip("netns", "pids", namespace).split():
        try:
            title = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::ActorWorker"):
            found.append(int(pid))
    return found


class Machines:
    """Ray and a run on both machines, with one token."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "run"
        token = folder / "token"
        token.write_text("5" * 64)
        self._env = {name: value for name, value in os.environ.items() if "RAY" not in name}
        self._env |= {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_register_timeout_seconds": "600",
        }

    def call(self, namespace: str, *command: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{namespace}.log").open("ab")
        return subprocess.Popen(
            ["ip", "netns", "exec", namespace, str(BIN / command[0]), *command[1:]],
            env=self._env, stdout=log, stderr=log,
        )  # fmt: skip

    def start_ray(self, index: int) -> None:
        where = (
            ["--head", "--port", str(PORT), "--include-dashboard", "false"]
            if index == 0
            else ["--address", f"{ADDRESSES[0]}:{PORT}"]
        )
        self.call(
            NAMES[index], "ray", "start", *where, "--node-ip-address", ADDRESSES[index],
            "--num-cpus", "1", "--object-store-memory", str(2**28), "--block",
        )  # fmt: skip

    def metrics(self) -> list[dict[str, Any]]:
        file = self.run / "metrics.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def newest(self, name: str) -> float:
        rows = self.metrics()
        return rows[-1].get(name, 0) if rows else 0


@pytest.mark.usefixtures("namespaces")
def test_a_node_is_killed_and_comes_back(tmp_path: Path) -> None:
    machines = Machines(tmp_path)
    machines.start_ray(0)
    time.sleep(20)
    machines.start_ray(1)
    time.sleep(20)
    train = machines.call(
        NAMES[0], "agent57", "train", "--env", "toy/cue", "--scale", "tiny", "--device", "cpu",
        "--runtime", "cluster", "--actors", "2", "--lanes-per-actor", "4",
        "--ray-address", f"{ADDRESSES[0]}:{PORT}", "--frames", "100_000_000",
        "--run.log-frames", "400", "--out", str(machines.run),
    )  # fmt: skip
    wait_for(lambda: actors_in(NAMES[1]), "an actor on the second machine")
    wait_for(lambda: machines.newest("updates") > 20, "updates")
    assert len(actors_in(NAMES[0])) == len(actors_in(NAMES[1])) == 1

    end_all_in(NAMES[1])
    wait_for(lambda: machines.newest("cluster/actor_restarts") >= 1, "the loss to be seen")
    frames = machines.newest("frames")
    wait_for(lambda: machines.newest("frames") > frames + 2000, "the others to go on")
    assert machines.newest("cluster/actors_without_place") == 1

    machines.start_ray(1)
    wait_for(lambda: actors_in(NAMES[1]), "the actor to be back on the second machine")
    wait_for(lambda: machines.newest("cluster/actors_without_place") == 0, "a place for all")
    frames = machines.newest("frames")
    wait_for(lambda: machines.newest("frames") > frames + 2000, "both to play")

    train.send_signal(signal.SIGTERM)
    assert train.wait(PATIENCE_SECONDS) == 0
    last = machines.metrics()[-1]
    assert last["cluster/samples_per_insert"] == pytest.approx(4.0, rel=0.05)
    assert last["cluster/lost_transitions"] < 200
