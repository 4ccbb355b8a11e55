"""One Ray for all tests of a session, on loopback, configured before anything imports Ray."""

import os
from collections.abc import Iterator

import pytest

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Long limits, because a busy machine must not make tests fail.
os.environ.setdefault("RAY_worker_register_timeout_seconds", "600")
os.environ.setdefault("RAY_worker_niceness", "0")  # by default workers have a low priority


@pytest.fixture(scope="session")
def on_ray() -> Iterator[None]:
    """Start Ray as a run would."""
    from agent57.runtime.cluster.calls import connected
    from tests.runtime.cluster.test_conductor import CONFIG

    with connected(CONFIG, "", 2**28):
        yield
