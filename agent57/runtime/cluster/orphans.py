"""Ends Ray's agents when this process is killed, if it started the Ray.

Linux ends Ray's main processes together with the process that started them, but not Ray's agents,
which are children of its raylet. The agents would go on for 60 s, a constant of Ray, and try to
report the raylet's end to a dead server. A shell that waits at a pipe ends them at once.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# A pipe whose writer was killed ends without a line.
WAIT_AND_END = 'read -r line || kill -9 "$@"'


@contextmanager
def ended_with_this_process(pids: list[int]) -> Iterator[None]:
    """End some processes if this process dies within the block, and not if it dies later."""
    if not pids:
        yield
        return
    shell = subprocess.Popen(
        ["/bin/sh", "-c", WAIT_AND_END, "agent57-orphans", *map(str, pids)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C in the terminal must not reach it
    )
    try:
        yield
    finally:
        shell.communicate(b"over\n")


def agents_of(raylet: int) -> list[int]:
    """Return the agents that a raylet started; none on a system without /proc."""
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
