"""Finds the Ray to join, before Ray is imported.

Ray reads from the environment, when it is imported, whether it may listen beyond loopback.
"""

import importlib.util
import os
import socket
from pathlib import Path

from agent57.config import Config, require

STARTED_HERE = Path("/tmp/ray/ray_current_cluster")  # where `ray start` leaves its address
PATIENCE_SECONDS = 3.0


def prepare(config: Config) -> str:
    """Return the address of the Ray to join, or "" to start one, and set Ray's environment.

    Without a configured address, a Ray of this user that runs on this machine is joined.
    """
    require(
        importlib.util.find_spec("ray") is not None,
        "the cluster runtime needs Ray: pip install 'agent57[cluster]'",
    )
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = config.cluster.ray_address or os.environ.get("RAY_ADDRESS", "")
    if address:
        require(
            "://" not in address,
            f"--ray-address {address} must be host:port: run the command on a node of the cluster",
        )
        require(
            _answers(address),
            f"--ray-address {address}: nothing answers there; start it with `ray start --head`",
        )
        return address
    is_mine = STARTED_HERE.is_file() and STARTED_HERE.stat().st_uid == os.getuid()
    address = STARTED_HERE.read_text().strip() if is_mine else ""
    if _is_here(address) and _answers(address):
        return address
    # Ray's mode for a single machine: it listens on 127.0.0.1 only.
    os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    # By default Ray gives workers, including the learner, a low priority (nice 15).
    os.environ.setdefault("RAY_worker_niceness", "0")
    return ""


def _is_here(address: str) -> bool:
    """Whether host:port is on this machine: a Ray that was killed leaves its address behind."""
    host, _, _ = address.rpartition(":")
    try:
        with socket.socket() as probe:
            probe.bind((host, 0))
    except OSError:
        return False
    return bool(host)


def _answers(address: str) -> bool:
    """Whether a program listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), PATIENCE_SECONDS).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True
