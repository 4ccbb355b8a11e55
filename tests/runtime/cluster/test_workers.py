"""Workers: an actor sends the same blocks as inline, and messages arrive unchanged."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from agent57.actor import Actor
from agent57.config import Config
from agent57.envs.make import check_env, make_env
from agent57.nets.networks import make_networks
from agent57.replay.assembler import Assembler
from agent57.replay.block import Block, make_layout
from agent57.runtime.cluster.workers import (
    ActorWorker,
    EvaluatorWorker,
    LearnerWorker,
    PlayReport,
    ShardWorker,
    arrays_of,
    on_cpu,
    tensors_of,
    unpacked,
)
from agent57.types import Batch
from tests.small import CPU, changed, make_learner, random_batch, small_config
from tests.small import SPEC as WALK

CONFIG = small_config(
    env={"name": "toy/cue"},
    actor={"lanes": 4, "pull_period": 10},
    cluster={"actors": 2},
    curiosity={"warmup_steps": 5},
    run={"runtime": "cluster"},
)
SPEC = check_env(CONFIG.env)
WEIGHTS, _ = make_learner(changed(CONFIG, run={"seed": 3}), SPEC).weights()
LAYOUT = make_layout(SPEC, make_networks(CONFIG, SPEC))


def play(config: Config, num_calls: int) -> tuple[list[Block], list[PlayReport]]:
    """Let all actors of a cluster play in turn, with fixed weights."""
    blocks, journeys = [], []
    for index in range(config.cluster.actors):
        worker = ActorWorker(config, index, LAYOUT)
        worker.start(None, None)
        for _ in range(num_calls):
            new, report = worker.play(arrays_of(WEIGHTS), 7)
            blocks += new
            journeys.append(report)
    return blocks, journeys


def play_inline(num_steps: int) -> list[Block]:
    torch.set_num_threads(1)
    env = make_env(CONFIG.env, CONFIG.actor.lanes)
    actor = Actor(CONFIG, env, LAYOUT, lambda: (WEIGHTS, 7), CPU)
    return [block for _ in range(num_steps) for block in actor.step()[0]]


def test_one_actor_sends_the_blocks_of_inline_byte_for_byte() -> None:
    one = changed(CONFIG, cluster={"actors": 1})
    blocks, journeys = play(one, 6)
    assert [b.to_bytes() for b in blocks] == [b.to_bytes() for b in play_inline(60)]
    assert len(blocks) > 40
    assert sum(report.steps for report in journeys) == 240


def test_the_first_actor_tells_what_its_lanes_do() -> None:
    journeys = play(CONFIG, 1)[1]
    counts = [len(journey.lanes) for journey in journeys]
    assert counts[0] == min(3, CONFIG.lanes_per_actor)
    assert not any(counts[1:])
    told = journeys[0].lanes[0]
    assert told["source"] == "actor"
    assert told["lane"] == 0


def test_an_actor_compresses_with_threads_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    class Watched(Assembler):
        def __init__(self, *args: Any, threads: int, **more: Any) -> None:
            counts.append(threads)
            super().__init__(*args, threads=threads, **more)

    monkeypatch.setattr("agent57.actor.Assembler", Watched)
    play(changed(CONFIG, cluster={"actor_threads": 3}, replay={"threads": 5}), 1)
    torch.set_num_threads(1)
    assert counts == [3, 3]


def test_two_actors_send_the_blocks_of_inline_lane_by_lane() -> None:
    # The networks see batches of another size, so only the last bits of floats may differ.
    def by_lane(blocks: list[Block]) -> dict[tuple[int, int, int], Block]:
        return {(block.lane, block.episode, block.index): block for block in blocks}

    two, one = by_lane(play(CONFIG, 6)[0]), by_lane(play_inline(60))
    assert two.keys() == one.keys()
    for place, block in two.items():
        same = one[place]
        assert block.observations == same.observations
        names = ("length", "is_last", "is_terminated", "arm", "previous_action")
        for name in names:
            assert getattr(block, name) == getattr(same, name), name
        assert (block.steps["action"] == same.steps["action"]).all()
        np.testing.assert_array_equal(block.steps["extrinsic"], same.steps["extrinsic"])
        for name in ("intrinsic", "action_prob"):
            np.testing.assert_allclose(block.steps[name], same.steps[name], rtol=1e-5)
        assert block.priority == pytest.approx(same.priority, abs=1e-5)
        if block.state is not None:
            np.testing.assert_allclose(block.state, same.state, atol=1e-6)


def test_a_report_tells_what_was_played() -> None:
    blocks, journeys = play(changed(CONFIG, cluster={"actors": 1}), 3)
    assert sum(report.sent for report in journeys) == sum(block.length for block in blocks)
    assert journeys[-1].waiting == 120 - sum(block.length for block in blocks)
    completing = sum(block.completes_window(CONFIG.sequence) for block in blocks)
    assert sum(report.windows for report in journeys) == completing
    assert journeys[0].version == 7
    assert "reward/extrinsic" in journeys[0].scalars


def test_a_successor_begins_new_episodes_where_the_streams_were_left() -> None:
    one = changed(CONFIG, cluster={"actors": 1})
    first, successor = ActorWorker(one, 0, LAYOUT), ActorWorker(one, 0, LAYOUT)
    first.start(None, None)
    report = first.play(arrays_of(WEIGHTS), 7)[1]
    successor.start(None, report.lasting)
    blocks, told = successor.play(arrays_of(WEIGHTS), 7)
    assert {block.index for block in blocks if block.episode == 0} >= {0}
    assert unpacked(told.lasting)["num_steps"] == 20
    begun = unpacked(report.lasting)["player"]["num_begun"]
    assert (
        unpacked(told.lasting)["player"]["num_begun"] > begun
    ).all()  # no episode is played twice
    moments = unpacked(told.lasting)["player"]["curiosity"]["moments"]
    assert (moments["count"] == 20).all()


def test_an_evaluator_that_takes_over_in_mid_phase_sees_with_the_learned_embedding() -> None:
    first, successor = EvaluatorWorker(CONFIG), EvaluatorWorker(CONFIG)
    first.start(None, None, arrays_of(WEIGHTS), 7)
    lasting = first.play(arrays_of(WEIGHTS), 7, 0).lasting
    successor.start(None, lasting, arrays_of(WEIGHTS), 7)
    successor.play(arrays_of(WEIGHTS), 7, 0)
    state = successor.state_dict()
    assert state is not None
    assert state["num_begun"] % CONFIG.evaluator.phase_episodes > 1
    (held,) = state["player"]["curiosity"]["held"]
    learned = {n.removeprefix("embedding."): w for n, w in WEIGHTS.items()}
    assert all(torch.equal(weight, learned[name]) for name, weight in held.items())


def test_before_the_first_step_there_is_no_episode_to_save() -> None:
    actor, evaluator = ActorWorker(CONFIG, 0, LAYOUT), EvaluatorWorker(CONFIG)
    actor.start(None, None)
    evaluator.start(None, None, arrays_of(WEIGHTS), 0)
    assert actor.state_dict() is None
    assert evaluator.state_dict() is None
    actor.play(arrays_of(WEIGHTS), 7)
    evaluator.play(arrays_of(WEIGHTS), 7, 0)
    assert actor.state_dict() is not None
    assert evaluator.state_dict() is not None


def test_parts_of_a_batch_are_joined_window_by_window() -> None:
    whole = random_batch(small_config(), (8, 3, 8, 5))
    axis = {"arm": 0, "start": 0, "key": 0, "probability": 0, "state": 2}
    parts = []
    for rows in ([0, 1, 2], [3]):
        index = torch.tensor(rows)
        parts.append(
            {
                f.name: getattr(whole, f.name).index_select(axis.get(f.name, 1), index).numpy()
                for f in fields(Batch)
            }
        )
    batches = [Batch(**tensors_of(part)) for part in parts]
    both = Batch.joined(batches)
    for field in fields(Batch):
        assert torch.equal(getattr(both, field.name), getattr(whole, field.name)), field.name
    assert torch.equal(Batch.joined(batches[:1]).key, whole.key[:3])


def test_an_update_is_that_of_a_learner_and_answers_by_part() -> None:
    config = small_config()
    batch = random_batch(config)
    arrays = {f.name: getattr(batch, f.name).numpy() for f in fields(Batch)}
    worker = LearnerWorker(config, WALK, "cpu")
    worker.start(None, "", 0)
    metrics, (keys, priorities) = worker.update(arrays)
    expected = make_learner(config).update(batch)
    assert metrics == expected.metrics
    assert (keys == batch.key.numpy()).all()
    assert (priorities == expected.priorities.numpy()).all()
    assert worker.weights()[1] == 1


def test_a_shard_draws_stores_and_reprioritises() -> None:
    blocks, _ = play(changed(CONFIG, cluster={"actors": 1}), 4)
    shard = ShardWorker(CONFIG, 0, LAYOUT)
    shard.start(None)
    holding = shard.add(blocks)
    assert holding.added == sum(block.length for block in blocks)
    assert holding.windows == sum(block.completes_window(CONFIG.sequence) for block in blocks)
    arrays, weight = shard.sample(5, 0.25)
    assert arrays["key"].shape == (5,)
    assert weight == pytest.approx(holding.weight)
    assert (arrays["probability"] <= 0.25).all()
    shard.reprioritise((arrays["key"], np.full(5, 1e3, np.float32)))
    assert shard.sample(1, 1.0)[1] > weight


def test_a_restored_shard_takes_episodes_up_after_a_gap() -> None:
    one = changed(CONFIG, cluster={"actors": 1})
    blocks, _ = play(one, 8)
    lane = [block for block in blocks if block.lane == 0]
    place = next(i for i, block in enumerate(lane) if block.index == 1 and not block.is_last)
    shard = ShardWorker(one, 0, LAYOUT)
    shard.start(None)
    shard.add(lane[place:])
    arrays, _ = shard.sample(32, 1.0)
    assert arrays["mask"].any(0).all()


def test_weights_arrive_as_they_were() -> None:
    arrays = arrays_of(WEIGHTS)
    for array in arrays.values():
        assert array.flags.c_contiguous
        array.flags.writeable = False
    tensors = tensors_of(arrays)
    assert all(torch.equal(tensors[name], value) for name, value in WEIGHTS.items())


def test_a_state_is_brought_off_the_gpu_and_stays_what_it_is() -> None:
    state = {"a": [torch.ones(2), 3], "b": {"c": "text", "d": None}}
    moved = on_cpu(state)
    assert moved["a"][1] == 3
    assert moved["b"] == state["b"]
    assert torch.equal(moved["a"][0], torch.ones(2))
