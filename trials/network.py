"""Four Ray nodes on a real network: measured and predicted bytes, a slow node, a cut node.

    python trials/network.py --out network --mbits 1000 --delay-ms 10      # needs root and ip

Each node is a network namespace on a bridge; `tc` limits what a node sends. With a delay, a thread
of this script carries the packets instead of the bridge, because many kernels lack `netem`. The
head holds driver, learner, replay and evaluator. Every node has room for one actor. The script
measures the bytes that leave and reach each node, and compares them with the prediction from steps
and published weights. Then one node is slowed to a fiftieth of its bandwidth, and another is cut
off for a minute and comes back.
"""

import argparse
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from agent57.bench.processes import newest
from agent57.bench.script import show

NAMES = tuple(f"a57-node{index}" for index in range(4))
BRIDGE, PORT = "a57-bridge", 6398
BIN = Path(sys.executable).parent
PATIENCE_SECONDS = 1200.0
# Numbers of linux/if_packet.h and linux/if_ether.h that Python does not name.
SOL_PACKET, PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING, ETH_P_ALL = 263, 15, 23, 3
OFFLOAD_BYTES, ADDRESS_BYTES, FRAME_BYTES = 10, 6, 2**17


def ip(*args: str) -> str:
    """Run `ip` and return its output."""
    return subprocess.run(["ip", *args], check=True, capture_output=True, text=True).stdout


def address(index: int) -> str:
    return f"10.58.0.{index + 1}"


def wait_for(condition: Callable[[], object], what: str) -> float:
    """Wait until a condition holds; return the seconds it took."""
    begun = time.monotonic()
    while not condition():
        if time.monotonic() - begun > PATIENCE_SECONDS:
            raise TimeoutError(f"waited in vain for {what}")
        time.sleep(1)
    return time.monotonic() - begun


def end_all_on(index: int) -> None:
    """End all processes of a node."""
    for pid in ip("netns", "pids", NAMES[index]).split():
        try:
            os.kill(int(pid), signal.SIGKILL)
        except ProcessLookupError:
            continue


class DelayedSwitch(threading.Thread):
    """Carries packets between the links of the nodes, each with a delay.

    Packets keep the header that says which checksums and segments the kernel still has to make.
    So a packet may be as large as the kernel makes it.
    """

    def __init__(self, devices: list[str], seconds: float) -> None:
        super().__init__(daemon=True)
        self._seconds, self._ports = seconds, [self._open(device) for device in devices]
        self._home: dict[bytes, int] = {}  # port of each hardware address

    @staticmethod
    def _open(device: str) -> socket.socket:
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        for option in (PACKET_VNET_HDR, PACKET_IGNORE_OUTGOING):
            port.setsockopt(SOL_PACKET, option, 1)
        port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**24)
        port.bind((device, ETH_P_ALL))
        port.setblocking(False)
        return port

    def run(self) -> None:
        """Carry packets until the process ends."""
        waiting: deque[tuple[float, int, bytes]] = deque()
        selector = selectors.DefaultSelector()
        for index, port in enumerate(self._ports):
            selector.register(port, selectors.EVENT_READ, index)
        while True:
            pause = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
            for key, _ in selector.select(pause):
                try:
                    frame = self._ports[key.data].recv(FRAME_BYTES)
                except OSError:  # the link was cut
                    continue
                waiting.append((time.monotonic() + self._seconds, key.data, frame))
            while waiting and waiting[0][0] <= time.monotonic():
                self._deliver(*waiting.popleft()[1:])

    def _deliver(self, source: int, frame: bytes) -> None:
        """Send to the node with the packet's address, or to all if no node is known to have it."""
        to, sender = (
            frame[OFFLOAD_BYTES + begin : OFFLOAD_BYTES + begin + ADDRESS_BYTES]
            for begin in (0, ADDRESS_BYTES)
        )
        self._home[sender] = source
        known = self._home.get(to)
        others = [index for index in range(len(self._ports)) if index != source]
        for index in others if known is None else [known]:
            try:
                self._ports[index].send(frame)
            except OSError:  # a link that is cut, or full: packets are lost as on a real one
                continue


class Network:
    """Namespaces on a bridge or a delayed switch, each with its own link."""

    def __init__(self, mbits: float, delay_ms: float) -> None:
        self.remove()
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("link", "set", BRIDGE, "up")
        bridged = [] if delay_ms else ["master", BRIDGE]
        for index, name in enumerate(NAMES):
            ip("netns", "add", name)
            ip("link", "add", f"a57-b{index}", "type", "veth", "peer", "eth0", "netns", name)
            ip("link", "set", f"a57-b{index}", *bridged, "up")
            ip("-n", name, "addr", "add", f"{address(index)}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", name, "link", "set", device, "up")
            self.limit(index, mbits)
        if delay_ms:  # half of a round trip each way
            devices = [f"a57-b{index}" for index in range(len(NAMES))]
            DelayedSwitch(devices, delay_ms / 2000).start()

    def limit(self, index: int, mbits: float) -> None:
        """Limit the bandwidth from a node and to it."""
        burst = f"{max(32, int(mbits * 0.25))}kb"
        shaped = ["root", "handle", "1:", "tbf", "rate", f"{mbits}mbit", "burst", burst]
        for where, device in ((["-n", NAMES[index]], "eth0"), ([], f"a57-b{index}")):
            change = ["tc", *where, "qdisc", "replace", "dev", device, *shaped, "latency", "200ms"]
            subprocess.run(change, check=True)

    def cut(self, index: int, is_cut: bool) -> None:
        """Pull the cable of a node, or plug it in again."""
        ip("link", "set", f"a57-b{index}", "down" if is_cut else "up")

    def traffic(self) -> list[tuple[int, int]]:
        """Return the bytes that each node has sent and received."""
        found = []
        for index in range(len(NAMES)):  # the bridge receives what the node sends
            counters = Path(f"/sys/class/net/a57-b{index}/statistics")
            sent, received = (
                int((counters / name).read_text()) for name in ("rx_bytes", "tx_bytes")
            )
            found.append((sent, received))
        return found

    def remove(self) -> None:
        """End all processes of the nodes, and the network."""
        there = ip("netns", "list")
        for index, name in enumerate(NAMES):
            if name in there:
                end_all_on(index)
                ip("netns", "del", name)
        if BRIDGE in ip("link"):
            ip("link", "del", BRIDGE)


class Nodes:
    """Ray on all nodes, and a run."""

    def __init__(self, out: Path) -> None:
        self.out = out
        token = out / "token"
        token.write_text("5" * 64)
        token.chmod(0o600)
        self._env = {name: value for name, value in os.environ.items() if "RAY" not in name} | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token.resolve()),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_register_timeout_seconds": "600",
            "RAY_worker_niceness": "0",
            "OMP_WAIT_POLICY": "PASSIVE",
        }
        self.ray: dict[int, subprocess.Popen[bytes]] = {}

    def call(self, index: int, program: str, *args: str) -> subprocess.Popen[bytes]:
        """Begin a program on a node."""
        command = ["ip", "netns", "exec", NAMES[index], str(BIN / program), *args]
        with (self.out / f"{NAMES[index]}.log").open("ab") as log:
            return subprocess.Popen(command, env=self._env, stdout=log, stderr=log)

    def start_ray(self, index: int) -> None:
        """Begin Ray on a node; the first one is the head."""
        head = ["--head", "--port", str(PORT), "--include-dashboard", "false"]
        where = ["--address", f"{address(0)}:{PORT}"] if index else head
        options = {
            "--node-ip-address": address(index),
            "--num-cpus": "1",
            "--object-store-memory": str(2**28),
        }
        words = [word for option in options.items() for word in option]
        self.ray[index] = self.call(index, "ray", "start", *where, *words, "--block")

    def keep_ray(self) -> None:
        """Start Ray again where it has ended, as the machine's supervisor would."""
        for index, process in list(self.ray.items()):
            if process.poll() is not None:
                end_all_on(index)
                self.start_ray(index)

    def is_up(self, name: str) -> bool:
        """Whether Ray reports that a node runs, after several attempts for a busy machine."""
        self.keep_ray()
        return "Ray runtime started" in (self.out / f"{name}.log").read_text(errors="replace")

    def actors_on(self, index: int) -> int:
        """Count the actors on a node."""
        count = 0
        for pid in ip("netns", "pids", NAMES[index]).split():
            try:
                title = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            count += title.startswith(b"ray::ActorWorker")
        return count


def measure(run: Path, network: Network, nodes: Nodes, seconds: float) -> dict:
    """Return bytes and steps between two lines of metrics, `seconds` apart."""

    def line() -> dict:
        before = newest(run / "metrics.jsonl").get("frames", 0)
        wait_for(lambda: newest(run / "metrics.jsonl").get("frames", 0) > before, "metrics")
        return newest(run / "metrics.jsonl")

    first, begun, before = line(), time.monotonic(), network.traffic()
    while time.monotonic() - begun < seconds:
        nodes.keep_ray()
        time.sleep(1)
    last, after = line(), network.traffic()
    took = time.monotonic() - begun
    return {
        "seconds": took,
        "steps": last["steps"] - first["steps"],
        "updates": last["updates"] - first["updates"],
        "steps_per_second": (last["steps"] - first["steps"]) / took,
        "bytes_per_transition": last["replay/bytes"] / max(last["replay/transitions"], 1),
        "sent": [b[0] - a[0] for a, b in zip(before, after, strict=True)],
        "received": [b[1] - a[1] for a, b in zip(before, after, strict=True)],
        "rates": [last.get(f"cluster/frames_per_second/{k}", 0.0) for k in range(len(NAMES))],
    }


def predicted(run: Path, found: dict) -> dict:
    """Return the bytes of blocks and weights that `agent57 plan` predicts."""
    from agent57.envs.make import check_env
    from agent57.planning.sizes import count_sizes
    from agent57.storage.folder import read_config

    config = read_config(run)
    weights = count_sizes(config, check_env(config.env)).weight_bytes
    others = len(NAMES) - 1
    calls = found["steps"] / (config.actor.pull_period * config.lanes_per_actor)
    versions = min(found["updates"], calls / len(NAMES))  # a call brings the newest version
    return {
        "weights_bytes": weights,
        "blocks_received_by_head": found["steps"] * others / len(NAMES)
        * found["bytes_per_transition"],
        "weights_sent_by_head": versions * others * weights,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbits", type=float, default=1000.0, help="of each node's link")
    parser.add_argument("--delay-ms", type=float, default=10.0, help="of a round trip")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each measurement")
    parser.add_argument("--cut-seconds", type=float, default=60.0)
    parser.add_argument("--env", default="pong")
    parser.add_argument("--scale", default="tiny")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if os.geteuid() or not (shutil.which("ip") and shutil.which("tc")):
        sys.exit("network.py makes network namespaces: it needs root, ip and tc")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # the exit clears up
    args.out.mkdir(parents=True)
    run, nodes = args.out.resolve() / "run", Nodes(args.out)
    network = Network(args.mbits, args.delay_ms)
    results: dict = {"mbits": args.mbits, "delay_ms": args.delay_ms}

    def save(**values: object) -> None:
        results.update(values)
        (args.out / "network.json").write_text(json.dumps(results, indent=2))
        print(json.dumps(values), flush=True)

    try:
        for index in range(len(NAMES)):
            nodes.start_ray(index)
            wait_for(lambda: nodes.is_up(NAMES[index]), f"Ray on {NAMES[index]}")  # noqa: B023
        train = nodes.call(
            0, "agent57", "train", "--env", args.env, "--scale", args.scale, "--device", "cpu",
            "--runtime", "cluster", "--actors", str(len(NAMES)), "--lanes-per-actor", "4",
            "--ray-address", f"{address(0)}:{PORT}", "--frames", "100_000_000",
            "--run.log-frames", "800", "--run.threads", "1", "--out", str(run),
        )  # fmt: skip

        def counts() -> list[int]:
            nodes.keep_ray()
            return [nodes.actors_on(index) for index in range(len(NAMES))]

        up = wait_for(lambda: counts() == [1] * len(NAMES), "an actor on each node")
        newest_updates = lambda: newest(run / "metrics.jsonl").get("updates", 0)  # noqa: E731
        wait_for(lambda: newest_updates() > 5, "updates")
        usual = measure(run, network, nodes, args.seconds)
        save(seconds_until_all_play=up, usual=usual, predicted=predicted(run, usual))

        network.limit(2, args.mbits / 50)
        slow = measure(run, network, nodes, args.seconds)
        network.limit(2, args.mbits)
        save(slow_node=2, slow=slow)

        network.cut(3, True)
        cut = measure(run, network, nodes, args.cut_seconds)
        network.cut(3, False)
        back = wait_for(lambda: counts() == [1] * len(NAMES), "the node that was cut off")
        again = measure(run, network, nodes, args.seconds)
        last = newest(run / "metrics.jsonl")
        lost = {name: value for name, value in last.items() if "lost" in name or "restarts" in name}
        save(cut_node=3, cut=cut, seconds_until_back=back, again=again, lost=lost)

        train.send_signal(signal.SIGTERM)
        save(exit_code=train.wait(PATIENCE_SECONDS))
        show(results)
    finally:
        network.remove()


if __name__ == "__main__":
    main()
