"""The reference runtime: the same seed gives the same result, and every system trains in it."""

import itertools

import pytest
import torch

from agent57.config import Config
from agent57.presets import PRESETS, difference, make_config
from agent57.runtime import inline
from agent57.runtime.parts import Parts, build
from tests.small import CPU, Notes, Sitting, changed, same_tree, small_config

CONFIG = small_config(
    env={"name": "toy/chain"},
    run={"frames": 450},
    replay={"min_windows": 8},
    learner={"batch_size": 4},
)


def run(config: Config, num_threads: int = 1) -> tuple[Parts, Notes]:
    torch.set_num_threads(num_threads)
    parts, notes = build(config, CPU), Notes()
    inline.train(config, parts, notes, Sitting())  # type: ignore[arg-type]
    return parts, notes


@pytest.fixture(scope="module")
def finished() -> tuple[Parts, Notes]:
    """Train one whole run, which several tests examine."""
    torch.manual_seed(1)
    return run(CONFIG)


def test_one_seed_one_result_bit_for_bit(finished: tuple[Parts, Notes]) -> None:
    torch.manual_seed(2)  # global generators do not matter
    (parts, notes), (again, notes_again) = finished, run(CONFIG)
    assert parts.learner.num_updates > 20
    assert notes.scalars == notes_again.scalars
    assert notes.episodes == notes_again.episodes
    assert same_tree(parts.state_dict(), again.state_dict())


def test_one_thread_or_two_one_result() -> None:
    """Networks large enough for torch to split their layers, if it were let."""
    config = changed(
        make_config("agent57", "laptop", "vector"),
        env={"name": "toy/chain"},
        run={"frames": 4000},
        replay={"min_windows": 200},
    )
    try:
        (one, _), (two, _) = (run(config, num_threads) for num_threads in (1, 2))
    finally:
        torch.set_num_threads(1)
    assert one.learner.num_updates > 50
    assert same_tree(one.state_dict(), two.state_dict())


def test_another_seed_another_result(finished: tuple[Parts, Notes]) -> None:
    _, other = run(changed(CONFIG, run={"seed": 1, "frames": 150}))
    episodes = finished[1].episodes[: len(other.episodes)]
    assert episodes != other.episodes


def test_it_stops_at_its_frames(finished: tuple[Parts, Notes]) -> None:
    parts, _ = finished
    assert parts.counters()["frames"] == 450
    assert parts.counters() == {
        "frames": 450, "steps": 450, "updates": parts.learner.num_updates,
    }  # fmt: skip


def test_it_stops_when_the_session_is_told_to() -> None:
    parts, sitting = build(CONFIG, CPU), Sitting(max_ticks=5)
    inline.train(CONFIG, parts, Notes(), sitting)  # type: ignore[arg-type]
    assert sitting.num_ticks == 5
    assert parts.actor.num_steps == 5


def test_nothing_is_learned_before_the_minimum_is_there() -> None:
    config = changed(CONFIG, replay={"min_windows": 400}, run={"frames": 150})
    parts, _ = run(config)
    assert parts.replay.num_windows_inserted > 0
    assert parts.learner.num_updates == 0


def test_samples_per_insert_is_exact(finished: tuple[Parts, Notes]) -> None:
    parts, _ = finished
    replay = CONFIG.replay
    earned = (parts.replay.num_windows_inserted - 8) * replay.samples_per_insert
    sampled = parts.learner.num_updates * CONFIG.learner.batch_size
    assert 0 <= sampled - earned <= CONFIG.learner.batch_size


def test_only_the_actors_steps_are_in_the_replay(finished: tuple[Parts, Notes]) -> None:
    parts, notes = finished
    finished = sum(e.length for e in notes.episodes if e.source == "actor")
    assert any(e.source == "evaluator" for e in notes.episodes)
    assert finished <= parts.replay.num_transitions <= parts.actor.num_transitions
    lanes = {block.lane for _, block in parts.replay.blocks()}
    assert lanes == {0, 1, 2}


@pytest.mark.parametrize(("min_windows", "least", "most"), [(8, 0.5, 1.0), (400, 0.0, 0.0)])
def test_new_priorities_reach_the_replay(min_windows: int, least: float, most: float) -> None:
    # A window of one block keeps the priority that came with the block until an update uses it.
    config = changed(
        CONFIG,
        sequence={"trace_length": 4},
        replay={"min_windows": min_windows, "capacity": 4000},
        run={"frames": 240},
    )
    replay = run(config)[0].replay
    weights = replay.state_dict()["weight"]
    first = torch.tensor([block.priority for _, block in replay.blocks()]).double()
    assert len(weights) == len(first) > 30
    is_changed = ~torch.isclose(weights, first**config.replay.priority_exponent)
    assert least <= is_changed.double().mean() <= most


def test_the_actor_plays_with_learned_weights(finished: tuple[Parts, Notes]) -> None:
    parts, _ = finished
    assert 0 < parts.learner.num_updates - parts.actor.weights_version < 30


def test_the_summary_holds_what_a_user_wants_to_see(finished: tuple[Parts, Notes]) -> None:
    parts, _ = finished
    summary = parts.summary()
    shown = ("return", "best_arm", "best_beta", "best_gamma")
    names = {f"evaluator/{name}" for name in shown} | {"replay/windows", "replay/bytes"}
    assert names | {"arm_plays/0"} <= set(summary)


def tiny(agent: str) -> Config:
    """Return a system of the paper at tiny scale, on a task of the paper."""
    return changed(
        make_config(agent, "tiny"),
        env={"name": "random_coin"},
        replay={"min_windows": 4},
        run={"frames": 640},
    )


def test_the_systems_of_the_paper_differ_at_tiny_scale() -> None:
    for one, other in itertools.combinations(PRESETS, 2):
        assert set(difference(tiny(one), tiny(other))) > {"run.agent"}, (one, other)


@pytest.mark.parametrize("agent", PRESETS)
def test_every_system_of_the_paper_trains(agent: str) -> None:
    config = tiny(agent)
    parts, notes = run(config)
    assert parts.learner.num_updates >= 8
    losses = [scalars for scalars in notes.scalars if "priority/mean" in scalars]
    assert len(losses) == parts.learner.num_updates
    first, last = (p.learner.networks.value for p in (build(config, CPU), parts))
    for (name, before), after in zip(first.named_parameters(), last.parameters(), strict=True):
        assert not torch.equal(before, after), f"{name} was not learned"
    assert parts.actor.weights_version > 0


def test_continues_in_mid_run_from_its_state(finished: tuple[Parts, Notes]) -> None:
    whole, notes = finished
    half = changed(CONFIG, run={"frames": 210})
    parts, first = run(half)
    state = parts.state_dict()
    blocks = [(key, block.to_bytes()) for key, block in parts.replay.blocks()]
    resumed, second = build(CONFIG, CPU), Notes()
    assert resumed.load_state_dict(state, iter(blocks), 0) == 0
    inline.train(CONFIG, resumed, second, Sitting())  # type: ignore[arg-type]
    assert first.episodes + second.episodes == notes.episodes
    assert first.scalars + second.scalars == notes.scalars
    assert same_tree(whole.state_dict(), resumed.state_dict())


def test_the_summary_tells_the_age_of_the_actors_weights(
    finished: tuple[Parts, Notes],
) -> None:
    parts, _ = finished
    summary = parts.summary()
    age = parts.learner.num_updates - parts.actor.weights_version
    assert summary["actor/weights_age"] == age > 0
    assert summary["replay/windows"] == parts.replay.num_windows
    fresh = build(CONFIG, CPU)
    assert fresh.summary()["actor/weights_age"] == 0
