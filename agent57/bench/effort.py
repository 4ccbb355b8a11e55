"""Lengths of the measurements, and the agents that are measured."""

from dataclasses import dataclass, replace

from agent57.config import Config, SequenceConfig
from agent57.presets import make_config

LEARNED_PER_STEP = 3  # timesteps learned for each step played, in the end-to-end part


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The steps of `agent57 bench`."""

    scales: tuple[str, ...]  # the first one is also measured in the scaling tables
    repeats: int  # of each measurement; the median counts
    scaling_repeats: int  # of those that only the scaling tables show
    seconds: float  # of one measurement of something short
    main_lanes: int
    lanes: tuple[int, ...]  # of the scaling table
    memories: tuple[int, ...]  # states in an episodic memory, ascending
    threads: tuple[int, ...]
    games: tuple[str, ...]
    game_steps: int  # of a lane
    whole_updates: int  # at least, in the end-to-end part
    compiled: bool
    acted: tuple[tuple[str, int], ...]  # scales and lanes that the costs of acting are fitted to
    learned: tuple[tuple[str, int, int], ...]  # scales, windows and steps: the same for learning
    call_seconds: float  # of calls between processes on Ray; 0: taken as on the reference machine


FULL = Plan(
    scales=("paper", "laptop"),
    repeats=3,
    scaling_repeats=2,
    seconds=0.3,
    main_lanes=16,
    lanes=(1, 4, 16, 64),
    memories=(1_000, 10_000, 30_000),
    threads=(1, 2),
    games=(
        "pong", "breakout", "montezuma_revenge", "private_eye", "beam_rider", "skiing", "enduro",
        "battle_zone",
    ),
    game_steps=250,
    whole_updates=3,
    compiled=True,
    acted=(("paper", 1), ("paper", 4), ("paper", 16), ("laptop", 1), ("laptop", 16)),
    learned=(("paper", 2, 20), ("paper", 8, 40), ("laptop", 8, 20), ("laptop", 32, 20)),
    call_seconds=8.0,
)  # fmt: skip
QUICK = Plan(
    scales=("tiny",),
    repeats=1,
    scaling_repeats=1,
    seconds=0.02,
    main_lanes=4,
    lanes=(1,),
    memories=(100,),
    threads=(1,),
    games=("pong",),
    game_steps=160,
    whole_updates=2,
    compiled=False,
    acted=(("tiny", 1), ("tiny", 2)),
    learned=(("tiny", 2, 10), ("tiny", 4, 10)),
    call_seconds=0.0,
)


def bench_config(scale: str, lanes: int) -> Config:
    """Pong at a scale, in the mixture of the benchmark.

    The networks are the scale's own. Paper-size learning is measured on 16 windows of 80 steps, as
    others were, because the paper's 64 of 160 are the same work eight times over.
    """
    config = make_config("agent57", scale)
    if scale == "paper":
        config = replace(
            config,
            sequence=SequenceConfig(trace_length=80, replay_period=40),
            learner=replace(config.learner, batch_size=16),
        )
    per_window = config.sequence.trace_length / config.sequence.replay_period
    return replace(
        config,
        actor=replace(config.actor, lanes=lanes),
        replay=replace(
            config.replay,
            capacity=100_000,
            min_windows=config.learner.batch_size,
            samples_per_insert=LEARNED_PER_STEP / per_window,
        ),
        learner=replace(config.learner, compile="off"),
    )
