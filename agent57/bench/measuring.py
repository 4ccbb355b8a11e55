"""Measures the costs that plans are made from: half a minute of one core.

Acting and learning are measured at several sizes, and a cost for each kind of work is fitted to
what the sizes took. All times are core seconds with one thread, except for the gain of
more threads.
"""

import itertools
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import torch

from agent57.bench.acting import make_actor
from agent57.bench.calling import measure_calls
from agent57.bench.cost import cost_of
from agent57.bench.effort import Plan, bench_config
from agent57.bench.learning import CPU, random_batch
from agent57.bench.limits import Emulator, Limits
from agent57.bench.play import SEQUENCE, Rows, folded, make_assembler, make_replay, record
from agent57.config import Config, EnvConfig, ReplayConfig, SequenceConfig
from agent57.envs.make import check_env, make_env
from agent57.learner import Learner
from agent57.nets.networks import make_networks
from agent57.planning.machine_costs import OTHER_GAMES, REFERENCE, Costs
from agent57.planning.sizes import count_sizes
from agent57.replay.block import Block, Encoder
from agent57.storage.journal import resident_bytes
from agent57.storage.machine import processor
from agent57.threads import one_thread

SHORT, LONG = 10, 80  # steps of the blocks that frames are compressed in
BUSY = 0.75  # of the cores taken by other programs: the clock then says nothing about threads


def measure_costs(plan: Plan, tell: Callable[[str], None]) -> Costs:
    """Measure this machine; `tell` receives the name of each step."""
    with one_thread():
        process_bytes = _process_bytes()
        tell("costs of acting")
        emulator, lane_bytes = _emulator(plan)
        act = _acting(plan, emulator)
        tell("costs of learning")
        learn = _learning(plan)
        tell("costs of the replay")
        insert, sample = _storing(plan)
        tell("gain of more threads")
        act_parallel, update_parallel = _gains(plan)
        tell("size of compressed frames")
        frames = _frames(plan)
        flop = Limits(plan.seconds).flop().cpu
        tell("costs of calls between processes")
        answer, ray_cores, process_cores = measure_calls(plan.call_seconds)
    return Costs(
        processor=processor(),
        cores=os.cpu_count() or 1,
        measured=time.strftime("%Y-%m-%d"),
        flop=flop,
        act_call=act[0],
        act_weight_byte=act[1],
        act_lane=act[2],
        act_flop=act[3],
        emulator=emulator,
        update_call=learn[0],
        update_weight_byte=learn[1],
        update_byte=learn[2],
        update_flop=learn[3],
        insert=insert,
        sample=sample,
        act_parallel=act_parallel,
        update_parallel=update_parallel,
        message=REFERENCE.message,  # a driver at its limit: agent57/bench/driver.py
        answer=answer,
        ray_cores=ray_cores,
        process_cores=process_cores,
        process_bytes=process_bytes,
        lane_bytes=lane_bytes,
        frames=frames,
    )


def fitted(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Non-negative costs c with `rows` c near `seconds`, by the least squares of relative errors.

    Any set of costs may be zero. Of all sets that need no negative cost, the best one is taken.
    """
    weighted = np.array(rows, float) / np.array(seconds, float)[:, None]
    num_costs = weighted.shape[1]
    best, least = np.zeros(num_costs), float(len(seconds))
    for count in range(1, num_costs + 1):
        for chosen in map(list, itertools.combinations(range(num_costs), count)):
            scale = np.linalg.norm(weighted[:, chosen], axis=0)
            found = np.linalg.lstsq(weighted[:, chosen] / scale, np.ones(len(seconds)))[0] / scale
            error = float(np.square(weighted[:, chosen] @ found - 1).sum())
            if (found >= 0).all() and error < least:
                best, least = np.zeros(num_costs), error
                best[chosen] = found
    return best.tolist()


def _process_bytes() -> float:
    """Memory of a process that acts and learns with the smallest networks."""
    config = bench_config("tiny", 1)
    env = make_env(config.env, 1)
    make_actor(config, env).step()
    env.close()
    _updater(config)
    return float(resident_bytes() or REFERENCE.process_bytes)


def _emulator(plan: Plan) -> tuple[float, float]:
    """Seconds of a lane's step of Pong, and the memory of a lane."""
    before, lanes = resident_bytes() or 0, 8
    emulator = Emulator(EnvConfig(), lanes)
    cost_of(emulator.step, calls=20)
    cost = cost_of(emulator.step, plan.seconds)
    lane_bytes = ((resident_bytes() or 0) - before) / lanes
    emulator.close()
    return cost.cpu / lanes, max(0.0, lane_bytes)


def _acting(plan: Plan, emulator: float) -> list[float]:
    rows, seconds = [], []
    for scale, lanes in plan.acted:
        config = bench_config(scale, lanes)
        env = make_env(config.env, lanes)
        sizes = count_sizes(config, env.spec)
        actor = make_actor(config, env)
        cost_of(actor.step, calls=5)
        seconds.append(max(1e-9, cost_of(actor.step, plan.seconds).cpu - lanes * emulator))
        env.close()
        rows.append([1.0, sizes.weight_bytes, lanes, lanes * sizes.act_flops])
    return fitted(rows, seconds)


def _learning(plan: Plan) -> list[float]:
    rows, seconds = [], []
    for scale, batch_size, trace_length in plan.learned:
        config = _shaped(scale, batch_size, trace_length)
        sizes = count_sizes(config, check_env(config.env))
        seconds.append(cost_of(_updater(config), plan.seconds).cpu)
        rows.append([1.0, sizes.trained_bytes, sizes.activation_bytes, sizes.update_flops])
    return fitted(rows, seconds)


def _shaped(scale: str, batch_size: int, trace_length: int) -> Config:
    config = bench_config(scale, 1)
    return replace(
        config,
        sequence=SequenceConfig(trace_length=trace_length, replay_period=trace_length // 2),
        # One model of costs cannot hold two precisions.
        learner=replace(config.learner, batch_size=batch_size, precision="float32"),
    )


def _updater(config: Config) -> Callable[[], object]:
    """Return a function that makes one update; the first update has been made."""
    spec = check_env(config.env)
    networks = make_networks(config, spec)
    learner = Learner(config, networks, CPU)
    batch = random_batch(config, spec, networks.num_cores, networks.state_size)
    learner.update(batch)
    return lambda: learner.update(batch)


def _storing(plan: Plan) -> tuple[float, float]:
    """Seconds to take in a transition that came as a message, and to draw a timestep."""
    config = ReplayConfig(threads=1)
    rows = Rows(folded(record("pong", 4, 640, seed=0), 4))
    replay, assembler = make_replay(config), make_assembler(config, rows.num_lanes)
    blocks = [b for played in rows.play(640) for b in assembler.add(played)]
    messages = [block.to_bytes() for block in blocks]

    def insert() -> None:
        for message in messages:
            replay.add(Block.from_bytes(message))

    num_steps = sum(block.length for block in blocks)
    inserted = cost_of(insert).cpu / num_steps
    drawn = cost_of(lambda: replay.sample(16), plan.seconds).cpu
    return inserted, drawn / (16 * SEQUENCE.window_length)


def _gains(plan: Plan) -> tuple[float, float]:
    """Share of acting and of an update that more threads make faster, by Amdahl's law.

    A busy machine cannot measure them, so the reference machine's shares stand in.
    """
    num_threads = os.cpu_count() or 1
    if num_threads == 1 or os.getloadavg()[0] > BUSY * num_threads:
        return REFERENCE.act_parallel, REFERENCE.update_parallel
    shares: list[float] = []
    scale = plan.scales[0]
    for make in (lambda: _actor_step(scale), lambda: _updater(_shaped(scale, 4, 20))):
        best, works = 0.0, []
        for threads in (1, num_threads):
            torch.set_num_threads(threads)
            works.append(make())
        for _ in range(3):  # the best of three: other programs can only slow it down
            walls = []
            for threads, work in zip((1, num_threads), works, strict=True):
                torch.set_num_threads(threads)
                walls.append(cost_of(work, plan.seconds).wall)
            best = max(best, (1 - walls[1] / walls[0]) / (1 - 1 / num_threads))
        shares.append(min(1.0, best))
    torch.set_num_threads(1)
    return shares[0], shares[1]


def _actor_step(scale: str) -> Callable[[], object]:
    config = bench_config(scale, 16)
    actor = make_actor(config, make_env(config.env, 16))
    actor.step()
    return actor.step


def _frames(plan: Plan) -> dict[str, tuple[float, float]]:
    """Compressed bytes of a block's first and of each further frame, by game and on average."""
    encoder, found = Encoder(ReplayConfig().compression), {}
    for seed, game in enumerate(plan.games):
        lanes = record(game, 2, 4 * LONG, seed).observation

        def mean_bytes(steps: int, lanes: np.ndarray = lanes) -> float:
            pieces = [
                np.ascontiguousarray(lane[t : t + steps + 1])
                for lane in lanes
                for t in range(0, lane.shape[0] - steps, steps)
            ]
            return float(np.mean([len(encoder.encode(piece)[0]) for piece in pieces]))

        short, long = mean_bytes(SHORT), mean_bytes(LONG)
        further = (long - short) / (LONG - SHORT)
        found[game] = (short - SHORT * further, further)
    mean = np.mean(list(found.values()), axis=0)
    return found | {OTHER_GAMES: (float(mean[0]), float(mean[1]))}
