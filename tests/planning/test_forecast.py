"""The forecast by hand and by law, and the command that shows it."""

from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from agent57.cli import run
from agent57.config import Config, ConfigError
from agent57.envs.make import check_env
from agent57.planning.forecast import Forecast, Machines, expect, expectation, forecast
from agent57.planning.machine_costs import OTHER_GAMES, REFERENCE, Costs
from agent57.planning.sizes import count_sizes
from agent57.presets import make_config

# Costs for tests of one cost at a time: everything is free, except a tiny cost of acting.
FREE = Costs(
    processor="none", cores=1, measured="never", flop=0.0, act_call=0.0, act_weight_byte=0.0,
    act_lane=1e-12, act_flop=0.0, emulator=0.0, update_call=0.0, update_weight_byte=0.0,
    update_byte=0.0, update_flop=0.0, insert=0.0, sample=0.0, act_parallel=0.0,
    update_parallel=0.0, message=0.0, answer=0.0, ray_cores=0.0,
    process_cores=0.0, process_bytes=0.0, lane_bytes=0.0,
    frames={OTHER_GAMES: (0.0, 0.0)},
)  # fmt: skip


def tiny(actors: int = 1, lanes: int = 8) -> Config:
    """Return settings: windows of 20 steps every 10 steps, drawn 4 times, 16 per batch."""
    config = make_config("agent57", "tiny")
    config = replace(config, actor=replace(config.actor, lanes=lanes))
    if actors > 1:
        config = replace(
            config,
            cluster=replace(config.cluster, actors=actors),
            run=replace(config.run, runtime="cluster"),
        )
    return config


def predict(config: Config, costs: Costs, machines: Machines) -> Forecast:
    return forecast(config, check_env(config.env), costs, machines)


def test_acting_in_one_process_by_hand() -> None:
    # 8 lanes cost 2 + 8 x 1 seconds, the evaluator's lane 2 + 1: 13 seconds for 8 steps.
    costs = replace(FREE, act_call=2.0, act_lane=0.75, emulator=0.25)
    found = predict(tiny(), costs, Machines(cores=1))
    assert found.steps_per_second == pytest.approx(8 / 13)
    assert found.frames_per_hour == pytest.approx(4 * 3600 * 8 / 13)
    assert found.seconds == pytest.approx(100_000 / 4 * 13 / 8)
    assert found.bottleneck == "acting, 100% of the time"


def test_learning_in_one_process_by_hand() -> None:
    # A window every 10 steps, drawn 4 times, 16 to a batch: an update every 40 steps.
    found = predict(tiny(), replace(FREE, update_call=8.0), Machines(cores=1))
    assert found.steps_per_second == pytest.approx(5.0)
    assert found.updates_per_second == pytest.approx(1 / 8)
    assert found.seconds == pytest.approx((25_000 - 50 * 10) / 5)  # the warm-up costs nothing
    assert found.bottleneck == "learning, 100% of the time"


def test_threads_follow_amdahl() -> None:
    costs = replace(FREE, update_call=8.0, update_parallel=0.5)
    assert predict(tiny(), costs, Machines(cores=2)).steps_per_second == pytest.approx(5 / 0.75)
    config = replace(tiny(), run=replace(tiny().run, threads=1))
    assert predict(config, costs, Machines(cores=2)).steps_per_second == pytest.approx(5.0)


def test_a_gpu_learns_at_its_share_of_the_peak() -> None:
    config = tiny()
    flops = count_sizes(config, check_env(config.env)).update_flops
    found = predict(config, FREE, Machines(cores=1, gpu_tflops=flops / 0.3 / 1e12))
    assert found.steps_per_second == pytest.approx(40.0)  # an update a second


def test_each_part_of_a_cluster_may_be_the_bottleneck() -> None:
    config = tiny(actors=4)
    many = Machines(cores=100, machines=3)
    for change, name, pace in (
        ({"act_lane": 1.0}, "actors", 4.0),
        ({"update_call": 8.0}, "learner", 5.0),
        ({"insert": 0.5}, "replay", 2.0),
        # 2 messages for each 20 steps of 2 lanes, 1 for each 20 steps of 8 lanes of the evaluator;
        # 3 for an update of 40 steps and 1 for its weights: 25 for 160 steps
        ({"message": 1.0}, "driver", 6.4),
    ):
        found = predict(config, replace(FREE, **change), many)
        assert (found.bottleneck, found.steps_per_second) == (name, pytest.approx(pace))


def test_one_machine_shares_its_cores() -> None:
    found = predict(tiny(actors=4), replace(FREE, act_lane=1.0), Machines(cores=2))
    assert found.bottleneck == "cores"  # shared by four actors and the evaluator
    assert found.steps_per_second == pytest.approx(2 / (1 + 1 / 8))
    assert found.core_seconds == pytest.approx(1 + 1 / 8)


def test_calls_and_idle_processes_take_cores() -> None:
    # 25 calls for 160 steps, as above. Ray and 4 + 4 idle processes use one of the two cores.
    costs = replace(FREE, answer=1.6, ray_cores=0.2, process_cores=0.1)
    found = predict(tiny(actors=4), costs, Machines(cores=2))
    assert found.bottleneck == "cores"
    assert found.steps_per_second == pytest.approx(1 / 0.25)
    assert found.core_seconds == pytest.approx(2 / 4)
    # With two more machines, four processes and a Ray remain on the first machine.
    apart = predict(tiny(actors=4), costs, Machines(cores=2, machines=3))
    assert apart.bottleneck == "cores beside the learner"
    assert apart.steps_per_second == pytest.approx((2 - 0.6) / 0.25)
    idle = 0.6 + 2 * 0.2 + 4 * 0.1
    assert apart.core_seconds == pytest.approx(0.25 + idle / apart.steps_per_second)
    assert predict(tiny(), costs, Machines(cores=2)).core_seconds == pytest.approx(0, abs=1e-9)


def test_idle_processes_leave_a_tenth_of_the_cores() -> None:
    costs = replace(FREE, answer=1.6, process_cores=10.0)
    found = predict(tiny(actors=4), costs, Machines(cores=2))
    assert found.steps_per_second == pytest.approx(0.2 / 0.25)


def test_weights_fill_the_network() -> None:
    config = tiny(actors=4)
    sizes = count_sizes(config, check_env(config.env))
    machines = Machines(cores=100, machines=3, network_gbits=8e-9 * sizes.weight_bytes)
    found = predict(config, FREE, machines)
    # Every 40 steps a version goes to two machines, and the network carries one version a second.
    assert found.bottleneck == "network, weights"
    assert found.steps_per_second == pytest.approx(20.0)
    assert found.sent_bytes == pytest.approx(sizes.weight_bytes)


def test_versions_far_apart_do_not_fill_the_network() -> None:
    config = tiny(actors=4)
    sizes = count_sizes(config, check_env(config.env))
    machines = Machines(cores=100, machines=3, network_gbits=8e-9 * sizes.weight_bytes)
    apart = replace(config, cluster=replace(config.cluster, publish_seconds=4.0))
    found = predict(apart, replace(FREE, act_lane=1e-3), machines)
    assert found.bottleneck == "actors"  # a version goes to two machines every four seconds
    assert found.sent_bytes == pytest.approx(2 * sizes.weight_bytes / 4)
    often = replace(config, cluster=replace(config.cluster, publish_seconds=0.1))
    assert predict(often, FREE, machines).bottleneck == "network, weights"


def test_memory_by_hand() -> None:
    config = tiny(actors=4)
    sizes = count_sizes(config, check_env(config.env))
    costs = replace(FREE, act_lane=1.0, process_bytes=1e9, frames={OTHER_GAMES: (100.0, 10.0)})
    apart = predict(config, costs, Machines(cores=2, machines=3))
    block = 100 + 10 * 10 + 700 + 10 * 13 + sizes.state_bytes
    assert apart.replay_bytes == pytest.approx(50_000 / 10 * block)
    actor = 1e9 + sizes.weight_bytes + 2 * sizes.embedding_bytes + 2 * 2000 * 16 * 4
    assert apart.other_bytes == pytest.approx(2 * actor + 2**28)
    together = predict(config, costs, Machines(cores=2))
    assert together.first_bytes == pytest.approx(apart.first_bytes + 4 * actor)
    assert together.other_bytes == 0


def test_more_of_anything_is_never_slower() -> None:
    paces = [
        predict(tiny(actors=n, lanes=32), REFERENCE, Machines(cores=8)).steps_per_second
        for n in (2, 4, 8)
    ]
    assert paces == sorted(paces)


@pytest.mark.parametrize(
    "wrong", [{"cores": 0}, {"cores": 1, "machines": 0}, {"cores": 1, "gpu_tflops": -1}]
)
def test_impossible_machines_are_refused(wrong: dict) -> None:
    with pytest.raises(ConfigError, match="--"):
        Machines(**wrong)


def test_other_environments_are_played_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    config = tiny()
    line = expectation(replace(config, env=replace(config.env, name="CartPole-v1")))
    assert line.startswith("expected: ")
    assert "frames per hour" in line
    (tmp_path / "agent57").mkdir()
    (tmp_path / "agent57" / "costs.json").write_text("damaged")
    assert expectation(config).startswith("no prediction: ")


def test_a_run_in_one_process_has_the_cores_it_may_use(monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config("agent57", "laptop", "pixels")
    config = replace(config, env=replace(config.env, name="pong"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    one = expect(config).steps_per_second
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    assert expect(config).steps_per_second > 1.2 * one


def call(*args: str) -> tuple[int, str, str]:
    console, errors = (Console(record=True, width=220, file=open("/dev/null", "w")) for _ in "12")  # noqa: SIM115
    code = run(["plan", *args], console, errors)
    return code, console.export_text(), errors.export_text()


def test_the_command_shows_plan_ladder_and_costs(tmp_path: Path) -> None:
    REFERENCE.write(tmp_path / "costs.json")
    out = tmp_path / "plan.json"
    code, text, _ = call(
        *("--actors", "256", "--lanes-per-actor", "1", "--cores", "64", "--machines", "5"),
        *("--gpu-tflops", "40", "--costs", str(tmp_path / "costs.json"), "--json", str(out)),
    )
    assert code == 0
    for expected in ("this plan", "256 x 1", "10,000 actors", "bottleneck", REFERENCE.processor):
        assert expected in text
    assert out.is_file()


def test_a_small_batch_is_shared_by_fewer_learners() -> None:
    code, text, errors = call("--scale", "laptop", "--learner.batch-size", "6")
    assert code == 0, errors
    assert "2 x 40" in text  # of four or sixteen learners, two share a batch of 6 evenly


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (("--actors", "0"), "--actors"),
        (("--machines", "2"), "--machines"),
        (("--cores", "-1"), "--cores"),
        (("--costs", "/nowhere.json"), "/nowhere.json"),
        (("--actors", "2", "--cluster.shards", "3"), "cluster.shards"),
        (("--scale", "house"), "--scale"),
    ],
)
def test_mistakes_are_one_line(args: tuple[str, ...], named: str) -> None:
    code, _, errors = call(*args)
    assert code == 2
    assert named in errors
    assert len(errors.strip().splitlines()) == 1
