"""The command `agent57 plan`."""

import math
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from agent57.allocator import enough_memory
from agent57.commands.options import parse
from agent57.commands.train import Train, apply_overrides, on_cluster
from agent57.config import Config, require
from agent57.defaults import default_config
from agent57.envs.gymnasium import trust
from agent57.envs.make import check_env
from agent57.planning.forecast import GPU_EFFICIENCY, Forecast, Machines, forecast, with_task
from agent57.planning.machine_costs import Costs, costs_file, machine_costs
from agent57.storage.folder import check_json, write_json
from agent57.terminal.live import duration


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """Predict pace, memory and bottleneck of a run, from costs that `agent57 bench` measured.

    Any field of the configuration may follow as --group.field value.
    """

    agent: str = "agent57"
    """The system of the paper to train; see `agent57 presets`."""
    env: str = "pong"
    """A game by the paper's name, random_coin, or a Gymnasium id with discrete actions."""
    scale: str = "paper"
    """paper, desktop, laptop or tiny: sizes of the networks and of the replay."""
    frames: int | None = None
    """Emulator frames to train for on Atari, agent steps elsewhere; by default the scale's."""
    actors: int = 1
    """Processes that play; 1: everything in one process."""
    lanes_per_actor: int | None = None
    """Lanes per actor; by default the scale's lanes, divided among the actors."""
    cores: float = 0
    """Cores of each machine; 0: as many as this machine has."""
    machines: int = 1
    """Machines; with several, the first holds learner, replay and driver, the others act."""
    gpu_tflops: float = 0
    """Peak of the learner's GPU in TFLOP/s; 0: the learner computes on the cores."""
    network_gbits: float = 10
    """Speed of each machine's network in Gbit/s."""
    costs: Path | None = None
    """A file of costs; by default the file that `agent57 bench` saved on this machine."""
    json: Path | None = None
    """Write the prediction to this file."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: actors, lanes, learners and machines."""

    name: str
    actors: int
    lanes: int | None  # per actor; None: the scale's number
    machines: Machines
    learners: int = 1
    publish_seconds: float = 0.0  # least time between two versions of the weights; 0: no limit


def _ladder(network_gbits: float) -> list[Row]:
    """Return rows from a laptop to ten thousand actors."""

    def machines(cores: float, count: int = 1, tflops: float = 0.0) -> Machines:
        return Machines(cores=cores, machines=count, gpu_tflops=tflops, network_gbits=network_gbits)

    return [
        Row("laptop", 1, 16, machines(4)),
        Row("workstation", 12, 16, machines(16)),
        Row("workstation, GPU", 14, 16, machines(16, tflops=40)),
        Row("64 actors", 64, 4, machines(64, 2, tflops=40)),
        Row("256 actors, the paper's", 256, 1, machines(64, 5, tflops=40)),
        Row("1,000 actors", 1000, 1, machines(64, 17, tflops=40), 4, 1.0),
        Row("10,000 actors", 10_000, 1, machines(64, 158, tflops=40), 4, 10.0),
        Row("640 actors of 16 lanes", 640, 16, machines(64, 11, tflops=40), 16, 1.0),
    ]


def main(args: list[str], console: Console) -> None:
    """Predict this plan and a ladder of others, and print tables."""
    known, rest = parse(PlanOptions, "plan", args, return_unknown_args=True)
    for name, count in (("--actors", known.actors), ("--lanes-per-actor", known.lanes_per_actor)):
        require(count is None or count > 0, f"{name} must be positive, got {count}")
    if known.json is not None:
        check_json(known.json)
    machines = Machines(
        cores=known.cores or os.cpu_count() or 1,
        machines=known.machines,
        gpu_tflops=known.gpu_tflops,
        network_gbits=known.network_gbits,
    )
    require(known.machines == 1 or known.actors > 1, "--machines above 1 need --actors above 1")
    row = Row("this plan", known.actors, known.lanes_per_actor, machines)
    config = _configured(known, rest, row)
    trust(config.env.name)
    spec = check_env(config.env)
    costs = machine_costs() if known.costs is None else Costs.read(known.costs)
    costs = with_task(costs, config.env)
    with enough_memory():
        found = forecast(config, spec, costs, machines)
    where = known.costs or costs_file()
    told = f"saved in {where}" if where.is_file() else "`agent57 bench` measures this machine's"
    console.print(
        f"costs of {costs.processor}, measured {costs.measured}; {told}\n"
        f"{config.run.agent} on {config.env.name}, {config.run.scale} scale, "
        f"{config.run.frames:,} frames",
        highlight=False,
    )
    ladder = _ladder(known.network_gbits)
    configs = [config] + [_configured(known, rest, rung) for rung in ladder]
    rows = [
        (rung, rung_config, forecast(rung_config, spec, costs, rung.machines))
        for rung, rung_config in zip([row, *ladder], configs, strict=True)
    ]
    console.print(_pace(rows))
    console.print(_needs(rows))
    console.print(_bottlenecks(found))
    console.print(
        f"GPUs are not measured: an update is assumed to reach {GPU_EFFICIENCY:.0%} of the peak.",
        highlight=False,
    )
    if known.json is not None:
        write_json(known.json, {"costs": asdict(costs), "plan": asdict(found)})


def _configured(known: PlanOptions, rest: list[str], row: Row) -> Config:
    """Return the configuration of a row. Options on the command line apply to every row."""
    config = default_config(known.env, known.agent, known.scale)
    frames = config.run.frames if known.frames is None else known.frames
    # Learners share a batch evenly, so a small batch allows fewer learners.
    learners = math.gcd(row.learners, apply_overrides(config, rest).learner.batch_size)
    config = replace(
        config,
        run=replace(config.run, frames=frames),
        cluster=replace(config.cluster, learners=learners, publish_seconds=row.publish_seconds),
    )
    if row.actors == 1:
        config = apply_overrides(config, rest)
        return replace(config, actor=replace(config.actor, lanes=row.lanes or config.actor.lanes))
    return on_cluster(config, Train(actors=row.actors, lanes_per_actor=row.lanes), rest)


def _pace(rows: list[tuple[Row, Config, Forecast]]) -> Table:
    """Return a table of each row's speed and bottleneck."""
    table = _empty("", "steps/s", "updates/s", "frames/h", "time")
    table.add_column("bottleneck")
    for row, _, found in rows:
        table.add_row(
            row.name,
            f"{found.steps_per_second:,.0f}",
            f"{found.updates_per_second:,.1f}",
            _short(found.frames_per_hour),
            duration(found.seconds),
            found.bottleneck,
        )
    return table


def _needs(rows: list[tuple[Row, Config, Forecast]]) -> Table:
    """Return a table of each row's machines, memory and network traffic."""
    table = _empty(
        "", "actors x lanes", "machines x cores", "GPU TFLOP/s", "memory, GB", "network, MB/s"
    )
    for row, config, found in rows:
        machines = row.machines
        tflops = f"{config.cluster.learners} x {machines.gpu_tflops:g}"
        others = f", others {found.other_bytes / 1e9:.0f}" if found.other_bytes else ""
        network = f"{found.sent_bytes / 1e6:,.0f} out, {found.received_bytes / 1e6:,.1f} in"
        table.add_row(
            row.name,
            f"{row.actors:,} x {config.actor.lanes // row.actors}",
            f"{machines.machines} x {machines.cores:g}",
            tflops if machines.gpu_tflops else "-",
            f"{found.first_bytes / 1e9:.1f}{others}",
            network if machines.machines > 1 else "-",
        )
    return table


def _empty(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index else "left")
    return table


def _short(number: float) -> str:
    """Write a large number with three digits, such as 2.65M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.3g}"


def _bottlenecks(found: Forecast) -> Table:
    """Return a table of the pace that each resource of the plan would allow by itself."""
    table = _empty("resource of this plan", "allows, steps/s", "in use")
    for resource in found.resources:
        use = found.steps_per_second / resource.pace
        table.add_row(resource.name, f"{resource.pace:,.0f}", f"{use:.0%}")
    return table
