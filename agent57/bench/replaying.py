"""Replay on real play: memory per transition; insert and sample against the codec alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from agent57.bench.cost import Cost, Result, compare, cost_of
from agent57.bench.effort import Plan
from agent57.bench.play import (
    SEQUENCE,
    Recording,
    Rows,
    folded,
    insert,
    joined,
    make_assembler,
    make_replay,
    record,
)
from agent57.config import ReplayConfig
from agent57.replay.block import Block, Decoder, Encoder
from agent57.replay.buffer import Replay

AIM = 0.5
BATCH = 64  # windows
BATCHES = 5  # per measurement
LANES = 4  # per game; an emulator takes longer to start than to play
PIECES = 4  # lanes that each recorded lane is cut into


def recordings(plan: Plan) -> dict[str, Recording]:
    """Random play of the plan's games, sixteen lanes of each."""
    return {
        game: folded(record(game, LANES, PIECES * plan.game_steps, seed), PIECES)
        for seed, game in enumerate(plan.games)
    }


def bytes_per_transition(recorded: dict[str, Recording]) -> dict[str, float]:
    """Bytes of everything stored per transition, by game, and the mean over games."""
    sizes = {}
    config = ReplayConfig()
    for game, recording in recorded.items():
        replay, rows = make_replay(config), Rows(recording)
        insert(rows.play(rows.num_steps), replay, make_assembler(config, rows.num_lanes))
        sizes[game] = replay.num_bytes / replay.num_transitions
    return sizes | {"mean": float(np.mean(list(sizes.values())))}


def storing(plan: Plan, recorded: dict[str, Recording], config: ReplayConfig) -> list[Result]:
    """Insert and sample, with the play of all games."""
    rows = Rows(joined(list(recorded.values())))
    replay, assembler = make_replay(config), make_assembler(config, rows.num_lanes)
    played = list(rows.play(rows.num_steps))  # prepared, like the blocks of the codec

    def play() -> None:
        insert(played, replay, assembler)

    play()  # the first use of the memory is not counted
    with ThreadPoolExecutor(config.threads) as pool:
        figures = compare(
            lambda: cost_of(play),
            lambda: _encode_alone(rows, config, pool),
            plan.repeats,
            rows.num_lanes * rows.num_steps,
        )
    inserting = Result(
        part="replay insert",
        scale="paper",
        unit="steps",
        aim=AIM,
        setting=f"{rows.num_lanes} lanes, {len(recorded)} games",
        **figures,
    )
    return [inserting, sampling(replay, config, plan.repeats)]


def _encode_alone(rows: Rows, config: ReplayConfig, pool: ThreadPoolExecutor) -> Cost:
    """Compress the same frames, in prepared blocks, with the same number of threads."""
    encoder = Encoder(config.compression)
    lane_major = rows.observation.swapaxes(0, 1)
    blocks = [
        np.ascontiguousarray(lane_major[lane, t : t + SEQUENCE.replay_period + 1])
        for lane in range(rows.num_lanes)
        for t in range(0, rows.num_steps, SEQUENCE.replay_period)
    ]
    return cost_of(lambda: list(pool.map(encoder.encode, blocks)))


def sampling(replay: Replay, config: ReplayConfig, repeats: int) -> Result:
    """Batches per second of a filled replay."""
    blocks, decoder, windows = dict(replay.blocks()), Decoder(), windows_by_key(replay)
    drawn: list[list[int]] = []

    def sample() -> Cost:
        drawn.clear()
        return cost_of(lambda: drawn.append(replay.sample(BATCH).key.tolist()), calls=BATCHES)

    def decode(block: Block) -> None:
        decoder.decode(block.observations, block.is_compressed)

    def decode_alone() -> Cost:
        """Decompress the blocks of the same windows."""
        needed = [blocks[i] for keys in drawn for key in keys for i in windows[key]]
        return cost_of(lambda: list(pool.map(decode, needed))) * (1 / len(drawn))

    sample()
    with ThreadPoolExecutor(config.threads) as pool:
        figures = compare(sample, decode_alone, repeats, 1)
    return Result(
        part="replay sample",
        scale="paper",
        setting=f"{BATCH} x {SEQUENCE.window_length}",
        unit="batches",
        aim=AIM,
        **figures,
    )


def windows_by_key(replay: Replay) -> dict[int, list[int]]:
    """Block ids of each window, by the window's key."""
    places = {(b.lane, b.episode, b.index): block_id for block_id, b in replay.blocks()}
    return {
        block_id: [
            places[lane, episode, index + offset]
            for offset in range(SEQUENCE.blocks_per_window)
            if (lane, episode, index + offset) in places
        ]
        for (lane, episode, index), block_id in places.items()
    }
