"""Predicts pace, memory and bottleneck of a run, from its configuration and measured costs.

All work of a run is counted per agent step (one action of one lane), because
`replay.samples_per_insert` fixes the learning per step. Each resource has a capacity and a demand
per step. The lowest capacity / demand is the pace, and its resource is the bottleneck.
"""

import math
import os
import time
from dataclasses import dataclass, replace

import numpy as np

from agent57.config import Config, ConfigError, EnvConfig, require
from agent57.curiosity.reward import versions_held
from agent57.envs.games import ATARI_GAMES
from agent57.envs.make import check_env, make_env
from agent57.envs.spec import EnvironmentFault
from agent57.planning.machine_costs import Costs, machine_costs
from agent57.planning.sizes import Sizes, count_sizes
from agent57.terminal.live import duration
from agent57.threads import available
from agent57.types import EnvSpec

PROBE_SECONDS = 0.1  # for which an environment is played to measure its cost
GPU_EFFICIENCY = 0.3  # share of a GPU's peak that an update reaches: assumed, never measured
UPDATES_AHEAD = 3  # batches that a cluster draws ahead of its learner
ADAM_COPIES = 4  # arrays of the size of the trained weights: weights, gradients, two moments
STORE_BYTES = 2**28  # least size of a cluster's object store
EPISODE_BYTES = 4  # bytes per number of an embedding in an episodic memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Machines that a run may use. With several, the first holds all parts except the actors."""

    cores: float  # per machine
    machines: int = 1
    gpu_tflops: float = 0.0  # peak of each learner's GPU in TFLOP/s; 0: learners use the cores
    network_gbits: float = 10.0  # network speed of each machine, in Gbit/s

    def __post_init__(self) -> None:
        for name in ("cores", "machines", "network_gbits"):
            value = getattr(self, name)
            option = name.replace("_", "-")
            require(0 < value < math.inf, f"--{option} must be positive, got {value}")
        require(
            0 <= self.gpu_tflops < math.inf,
            f"--gpu-tflops must not be negative, got {self.gpu_tflops}",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A resource that a run uses: `demand` per agent step, out of `capacity` per second."""

    name: str
    demand: float
    capacity: float

    @property
    def pace(self) -> float:
        """Agent steps per second that this resource alone would allow."""
        return self.capacity / self.demand if self.demand else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Predicted speed and needs of a run."""

    steps_per_second: float  # agent steps of all lanes, once learning has begun
    updates_per_second: float
    frames_per_hour: float
    seconds: float  # to the run's last frame, including the warm-up
    resources: tuple[Resource, ...]  # the bottleneck first
    core_seconds: float  # core time of all processes together, per agent step at this pace
    first_bytes: float  # memory of the machine with the learner, when the replay is full
    other_bytes: float  # memory of each other machine; 0 if there is none
    replay_bytes: float  # memory of the replay, which is a part of `first_bytes`
    sent_bytes: float  # bytes of weights per second that leave the first machine
    received_bytes: float  # bytes of blocks per second that reach the first machine

    @property
    def bottleneck(self) -> str:
        """The resource that sets the pace."""
        return self.resources[0].name

    @property
    def line(self) -> str:
        """The forecast in one line, as `agent57 train` shows it before it starts."""
        return (
            f"expected: {self.steps_per_second:,.0f} steps/s, "
            f"{self.frames_per_hour:,.0f} frames per hour, {duration(self.seconds)} to the end, "
            f"{self.first_bytes / 1e9:.1f} GB of memory when the replay is full"
        )


def expect(config: Config) -> Forecast:
    """Predict a run of `config` on the cores of this machine that it may use.

    An environment outside Atari is played for a moment to measure its cost.
    """
    costs = with_task(machine_costs(), config.env)
    one_process = config.run.runtime == "inline"
    cores = available() if one_process else os.cpu_count() or 1
    return forecast(config, check_env(config.env), costs, Machines(cores=cores))


def expectation(config: Config) -> str:
    """Return the line that `agent57 train` shows before it starts, or why there is none."""
    try:
        return expect(config).line
    except (ConfigError, EnvironmentFault) as error:
        return f"no prediction: {error}"


def with_task(costs: Costs, config: EnvConfig) -> Costs:
    """Return costs with the cost of the task's environment. All Atari games count as Pong."""
    if config.name in ATARI_GAMES:
        return costs
    return replace(costs, emulator=_environment_seconds(config))


def _environment_seconds(config: EnvConfig) -> float:
    """Measure the core time in seconds for one step of one lane, played at random."""
    env = make_env(replace(config, parallel="sync"), 1)
    rng = np.random.default_rng(0)
    lane, ended, num_steps = np.ones(1, bool), True, 0
    begun, cpu = time.perf_counter(), time.process_time()
    try:
        while num_steps < 3 or time.perf_counter() - begun < PROBE_SECONDS:
            if ended:
                env.reset(lane, rng.integers(2**31, size=1))
            step = env.step(rng.integers(env.spec.num_actions, size=1))
            ended = bool(step.terminated[0] or step.truncated[0])
            num_steps += 1
        return (time.process_time() - cpu) / num_steps
    finally:
        env.close()


def forecast(config: Config, spec: EnvSpec, costs: Costs, machines: Machines) -> Forecast:
    """Predict a run of `config` on `machines` whose cores have these costs."""
    sizes = count_sizes(config, spec)
    work = _work(config, spec, costs, sizes)
    warm_up = replace(work, updates=0.0, learn=0.0, draw=0.0, sent=0.0)
    resources = sorted(_resources(config, costs, work, machines), key=lambda found: found.pace)
    pace = resources[0].pace
    warm_pace = min(found.pace for found in _resources(config, costs, warm_up, machines))
    num_steps = config.run.frames / spec.frames_per_step
    warm_steps = min(num_steps, config.replay.min_windows * config.sequence.replay_period)
    idle = sum(_idle_cores(config, costs, machines))
    first, other, replay = _memory(config, spec, costs, sizes, machines)
    sent = pace * work.sent
    if config.cluster.publish_seconds:
        sent = min(sent, work.weights / config.cluster.publish_seconds)
    return Forecast(
        steps_per_second=pace,
        updates_per_second=pace * work.updates,
        frames_per_hour=3600 * pace * spec.frames_per_step,
        seconds=warm_steps / warm_pace + (num_steps - warm_steps) / pace,
        resources=tuple(resources),
        core_seconds=work.core_seconds + idle / pace,
        first_bytes=first,
        other_bytes=other,
        replay_bytes=replay,
        sent_bytes=sent * (machines.machines - 1),
        received_bytes=pace * work.received,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Work per agent step: seconds of one core, and bytes between machines."""

    act: float
    evaluate: float
    updates: float  # updates per agent step
    learn: float
    update_flops: float  # of one update
    draw: float
    insert: float
    drive: float
    respond: float  # work of the called processes, and of Ray
    weights: float  # bytes of one version of the weights
    sent: float  # bytes of weights to each other machine
    received: float  # bytes of blocks from all other machines

    @property
    def core_seconds(self) -> float:
        """Core time of all parts together."""
        parts = (self.act, self.evaluate, self.learn, self.draw, self.insert, self.drive)
        return sum(parts) + self.respond


def _work(config: Config, spec: EnvSpec, costs: Costs, sizes: Sizes) -> _Work:
    is_cluster = config.run.runtime == "cluster"
    lanes = config.lanes_per_actor if is_cluster else config.actor.lanes
    period, batch_size = config.sequence.replay_period, config.learner.batch_size
    batch_rows = batch_size * (config.sequence.window_length + 1)

    def step(num_lanes: int) -> float:
        per_lane = costs.emulator + costs.act_lane + sizes.act_flops * costs.act_flop
        fixed = costs.act_call + sizes.weight_bytes * costs.act_weight_byte
        return fixed + num_lanes * per_lane

    update = (
        costs.update_call
        + sizes.trained_bytes * costs.update_weight_byte
        + sizes.activation_bytes * costs.update_byte
        + sizes.update_flops * costs.update_flop
    )
    updates = config.replay.samples_per_insert / (period * batch_size)
    calls = 1 / (config.actor.pull_period * lanes)  # calls to play, per agent step
    evaluations = 1 / (config.actor.pull_period * config.actor.lanes)
    publications = min(calls, updates)
    # Each call to play also needs an add. Each update needs a draw, an update and priorities.
    messages = 2 * calls + evaluations + 3 * updates + publications if is_cluster else 0.0
    return _Work(
        act=step(lanes) / lanes,
        # The evaluator plays one step for each step of all the actors' lanes.
        evaluate=step(config.evaluator.lanes) / config.actor.lanes,
        updates=updates,
        learn=updates * update,
        update_flops=sizes.update_flops,
        draw=updates * batch_rows * costs.sample,
        insert=costs.insert if is_cluster else 0.0,
        drive=messages * costs.message,
        respond=messages * costs.answer,
        weights=sizes.weight_bytes,
        sent=publications * sizes.weight_bytes,
        received=costs.block_bytes(spec, period, sizes.state_bytes) / period,
    )


def _resources(config: Config, costs: Costs, work: _Work, machines: Machines) -> list[Resource]:
    if config.run.runtime == "cluster":
        return _on_cluster(config, costs, work, machines)
    return _in_one_process(config, costs, work, machines)


def _faster(seconds: float, threads: float, share: float) -> float:
    """Return the wall time of work whose `share` is spread over the threads (Amdahl's law)."""
    return seconds * (1 - share + share / threads)


def _in_one_process(
    config: Config, costs: Costs, work: _Work, machines: Machines
) -> list[Resource]:
    """Return the resource of a run in which acting and learning take turns with all threads."""
    threads = _threads(config, machines)
    learn = _learn_seconds(costs, work, machines, threads)
    act = _faster(work.act + work.evaluate, threads, costs.act_parallel)
    turn = act + learn + work.draw / threads
    name, share = max((("acting", act / turn), ("learning", 1 - act / turn)), key=lambda x: x[1])
    name = f"{name}, {share:.0%} of the time"
    return [Resource(name=name, demand=turn, capacity=min(1.0, machines.cores))]


def _threads(config: Config, machines: Machines) -> float:
    """Return the number of torch's threads, at most one per core."""
    return max(1.0, min(config.run.threads or machines.cores, machines.cores))


def _learn_seconds(costs: Costs, work: _Work, machines: Machines, threads: float) -> float:
    """Return the wall time of learning per agent step."""
    if machines.gpu_tflops:
        rate = machines.gpu_tflops * 1e12 * GPU_EFFICIENCY
        return work.updates * (costs.update_call + work.update_flops / rate)
    return _faster(work.learn, threads, costs.update_parallel)


def _on_cluster(config: Config, costs: Costs, work: _Work, machines: Machines) -> list[Resource]:
    """Return the resources of a cluster: each part, and the cores and networks they share."""
    cluster = config.cluster
    threads = _threads(config, machines)
    learn = _learn_seconds(costs, work, machines, threads) / cluster.learners
    on_cores = 0.0 if machines.gpu_tflops else work.learn
    beside = work.evaluate + on_cores + work.draw + work.insert + work.drive + work.respond
    act = _faster(work.act, cluster.actor_threads, costs.act_parallel)
    found = [
        Resource(name="actors", demand=act, capacity=float(cluster.actors)),
        Resource(name="learner", demand=learn, capacity=1.0),
        Resource(name="replay", demand=work.draw + work.insert, capacity=float(cluster.shards)),
        Resource(name="driver", demand=work.drive, capacity=1.0),
    ]
    idle = _idle_cores(config, costs, machines)
    if machines.machines == 1:
        free = _free(machines.cores, idle[0])
        return [*found, Resource(name="cores", demand=work.act + beside, capacity=free)]
    others = machines.machines - 1
    bandwidth = machines.network_gbits * 1e9 / 8
    sent = others * work.sent
    if cluster.publish_seconds and others * work.weights / cluster.publish_seconds <= bandwidth:
        sent = 0.0  # versions are too far apart to fill the network at any pace
    return [
        *found,
        Resource(
            name="cores of actors",
            demand=work.act,
            capacity=_free(others * machines.cores, idle[1]),
        ),
        Resource(
            name="cores beside the learner",
            demand=beside,
            capacity=_free(machines.cores, idle[0]),
        ),
        Resource(name="network, weights", demand=sent, capacity=bandwidth),
        Resource(name="network, blocks", demand=work.received, capacity=bandwidth),
    ]


def _idle_cores(config: Config, costs: Costs, machines: Machines) -> tuple[float, float]:
    """Return the cores that idle processes take, on the first machine and on all others."""
    if config.run.runtime == "inline":
        return 0.0, 0.0
    cluster = config.cluster
    num_processes = 2 + cluster.shards + cluster.learners  # with the driver and the evaluator
    first = costs.ray_cores + num_processes * costs.process_cores
    actors = cluster.actors * costs.process_cores
    if machines.machines == 1:
        return first + actors, 0.0
    return first, (machines.machines - 1) * costs.ray_cores + actors


def _free(cores: float, idle: float) -> float:
    """Return the cores that are left for work, at least a tenth, as idle processes can wait."""
    return max(cores - idle, 0.1 * cores)


def _memory(
    config: Config, spec: EnvSpec, costs: Costs, sizes: Sizes, machines: Machines
) -> tuple[float, float, float]:
    """Return the memory of the first machine, of each other machine, and of the full replay."""
    period = config.sequence.replay_period
    block = costs.block_bytes(spec, period, sizes.state_bytes)
    replay = config.replay.capacity / period * block
    copies = ADAM_COPIES * sizes.trained_bytes + sizes.weight_bytes + sizes.target_bytes
    learner = copies + sizes.activation_bytes + 2 * sizes.batch_bytes
    if machines.gpu_tflops:
        learner = 2 * sizes.batch_bytes

    def player(lanes: int) -> float:
        held = versions_held(config.actor.embedding_versions, lanes)
        versions = held * sizes.embedding_bytes
        memories = lanes * config.curiosity.memory_size * config.network.embedding_size
        curious = memories * EPISODE_BYTES if sizes.embedding_bytes else 0
        return sizes.weight_bytes + versions + curious + lanes * costs.lane_bytes

    evaluator = player(config.evaluator.lanes)
    if config.run.runtime == "inline":
        whole = costs.process_bytes + replay + learner + player(config.actor.lanes) + evaluator
        return whole, 0.0, replay
    cluster = config.cluster
    store = STORE_BYTES + 2 * (UPDATES_AHEAD + 1) * sizes.batch_bytes
    num_processes = 2 + cluster.shards + cluster.learners  # with the driver and the evaluator
    first = num_processes * costs.process_bytes + replay + evaluator + store
    first += cluster.learners * learner
    actor = costs.process_bytes + player(config.lanes_per_actor)
    if machines.machines == 1:
        return first + cluster.actors * actor, 0.0, replay
    per_machine = math.ceil(cluster.actors / (machines.machines - 1))
    return first, per_machine * actor + STORE_BYTES, replay
