"""Compares the replay with two libraries on the same play.

Memory per transition, and sampled windows per second (64 windows of 160 steps and the bootstrap
observation).

    pip install flashbax cpprb       # for this comparison alone; the package needs neither
    python -m agent57.bench.replay_libraries --json libraries.json

flashbax (PrioritisedTrajectoryBuffer) keeps single steps, so the recurrent state is stored with
every step. cpprb (PrioritizedReplayBuffer) draws fixed items, so a window is an item and overlaps
are stored twice. Our replay compresses and delivers time-major batches. The libraries do neither
here.
"""

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from agent57.bench.effort import FULL
from agent57.bench.play import (
    LAYOUT,
    SEQUENCE,
    Recording,
    Rows,
    insert,
    joined,
    make_assembler,
    make_replay,
    record,
)
from agent57.bench.script import need, options_of, show
from agent57.config import ReplayConfig

BATCH, GAMES = 64, FULL.games
ROWS = SEQUENCE.window_length + 1
STATE = LAYOUT.state_shape
Filled = tuple[float, Callable[[], object]]  # bytes per transition, and a function that samples


def random_states(count: int) -> np.ndarray:
    """Return random recurrent states of the paper's size."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, *LAYOUT.state_shape)).astype(np.float32)


def fill_agent57(recording: Recording) -> Filled:
    """Return the replay of this package, filled with the recording."""
    config, rows = ReplayConfig(), Rows(recording)
    replay = make_replay(config)
    insert(rows.play(rows.num_steps), replay, make_assembler(config, rows.num_lanes))
    return replay.num_bytes / replay.num_transitions, lambda: replay.sample(BATCH)


def fill_flashbax(recording: Recording) -> Filled:
    """Return a buffer of single steps, filled with the recording."""
    need("flashbax", "pip install flashbax")
    import flashbax
    import jax

    num_lanes, num_steps = recording.action.shape
    buffer = flashbax.make_prioritised_trajectory_buffer(
        add_batch_size=num_lanes,
        sample_batch_size=BATCH,
        sample_sequence_length=ROWS,
        period=SEQUENCE.replay_period,
        min_length_time_axis=ROWS,
        max_length_time_axis=num_steps,
        priority_exponent=0.9,
    )
    steps = {
        "observation": recording.observation[:, :num_steps],
        "action": recording.action.astype(np.uint8),
        "extrinsic": recording.reward,
        "intrinsic": recording.reward,
        "action_prob": recording.reward,
        "state": np.broadcast_to(random_states(num_steps), (num_lanes, num_steps, *STATE)),
    }
    state = buffer.init({name: rows[0, 0] for name, rows in steps.items()})
    add = jax.jit(buffer.add, donate_argnums=0)
    for t in range(0, num_steps, SEQUENCE.replay_period):
        state = add(
            state, {n: rows[:, t : t + SEQUENCE.replay_period] for n, rows in steps.items()}
        )
    draw = jax.jit(buffer.sample)
    keys = iter(jax.random.split(jax.random.PRNGKey(0), 1000))
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    return size / recording.action.size, lambda: jax.block_until_ready(draw(state, next(keys)))


def fill_cpprb(recording: Recording) -> Filled:
    """Return a buffer of whole windows, filled with the recording."""
    need("cpprb", "pip install cpprb")
    from cpprb import PrioritizedReplayBuffer

    num_lanes, num_steps = recording.action.shape
    starts = range(0, num_steps - SEQUENCE.window_length + 1, SEQUENCE.replay_period)
    column = {"shape": (SEQUENCE.window_length,), "dtype": np.float32}
    columns = {
        "observation": {"shape": (ROWS, *LAYOUT.observation_shape), "dtype": np.uint8},
        "action": {"shape": (SEQUENCE.window_length,), "dtype": np.uint8},
        "extrinsic": column,
        "intrinsic": column,
        "action_prob": column,
        "state": {"shape": STATE, "dtype": np.float32},
    }
    buffer = PrioritizedReplayBuffer(num_lanes * len(starts), columns, alpha=0.9)
    states = random_states(len(starts))
    for lane in range(num_lanes):
        for state, start in zip(states, starts, strict=True):
            rows = slice(start, start + SEQUENCE.window_length)
            buffer.add(
                observation=recording.observation[lane, start : start + ROWS],
                action=recording.action[lane, rows],
                extrinsic=recording.reward[lane, rows],
                intrinsic=recording.reward[lane, rows],
                action_prob=recording.reward[lane, rows],
                state=state,
            )
    stored = buffer.get_all_transitions()
    size = sum(stored[name].nbytes for name in columns)
    # Each window brings `period` new steps once an episode is long.
    return size / (num_lanes * len(starts) * SEQUENCE.replay_period), lambda: buffer.sample(
        BATCH, beta=0.0
    )


def measure(
    fill: Callable[[Recording], Filled], recording: Recording, repeats: int
) -> dict[str, float]:
    """Return bytes per transition, and the median of windows sampled per second."""
    size, sample = fill(recording)
    sample()
    seconds = []
    for _ in range(repeats):
        begun = time.perf_counter()
        sample()
        seconds.append(time.perf_counter() - begun)
    return {
        "bytes_per_transition": round(size, 1),
        "windows_per_second": round(BATCH / float(np.median(seconds)), 1),
    }


def main() -> None:
    """Measure and print."""
    parser = options_of(__doc__)
    parser.add_argument("--lanes", type=int, default=16, help="of each game")
    parser.add_argument("--steps", type=int, default=480, help="of each lane")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    recordings = [
        record(game, arguments.lanes, arguments.steps, seed) for seed, game in enumerate(GAMES)
    ]
    recording = joined(recordings)
    del recordings
    figures = {
        name: measure(fill, recording, arguments.repeats)
        for name, fill in (
            ("flashbax", fill_flashbax),
            ("cpprb", fill_cpprb),
            ("agent57", fill_agent57),
        )
    }
    show(figures, arguments.json)


if __name__ == "__main__":
    main()
