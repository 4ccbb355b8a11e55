"""Ends the agents of a Ray of our own when this process is killed.

Linux ends Ray's own processes together with the process that started them, but not Ray's agents,
which are children of its raylet. For 60 s, a constant of Ray, the agents try to report the end of
the raylet to a server that is dead too. A shell that waits at a pipe ends them at once.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A pipe whose writer was killed ends without a line.
WAIT_AND_END = 'read -r line || kill -9 "$@"'


@contextmanager
def ended_with_this_process(pids: list[int]) -> Iterator[None]:
    """End some processes if this one dies within the block; leave them alone after it."""
    if not pids:
        yield
        return
    shell = subprocess.Popen(
        ["/bin/sh", "-c", WAIT_AND_END, "agent57-orphans", *map(str, pids)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C in the terminal is not meant for it
    )
    try:
        yield
    finally:
        shell.communicate(b"over\n")


def agents_of(raylet: int) -> list[int]:
    """Agents that a raylet has started; none where the system does not show its processes."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            title = (folder / "cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue  # it has ended meanwhile
        if parent == raylet and title.endswith(b"Agent"):
            found.append(int(folder.name))
    return found
