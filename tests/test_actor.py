"""The actor: bandits per lane, weights on time, and first priorities by the learner's formula."""

import numpy as np
import pytest
import torch

from agent57.actor import Actor
from agent57.config import Config
from agent57.envs.rules import RulesEnv
from agent57.learner import Learner
from agent57.ops.family import betas, lane_epsilons
from agent57.player import Weights
from agent57.replay.block import Block
from agent57.replay.buffer import Replay
from agent57.types import Episode
from tests.small import CPU, changed, layout_of, make_learner, same_tree, small_config, walk

CONFIG = small_config()


def make_actor(
    config: Config = CONFIG,
    env: RulesEnv | None = None,
    learner: Learner | None = None,
    first_lane: int = 0,
) -> Actor:
    env = env or walk(3, max_steps=11, terminates=True)
    learner = learner or make_learner(config)
    return Actor(config, env, layout_of(config, env), learner.weights, CPU, first_lane)


def run(actor: Actor, num_steps: int) -> tuple[list[Block], list[Episode]]:
    blocks, episodes = [], []
    for _ in range(num_steps):
        new_blocks, new_episodes, _ = actor.step()
        blocks += new_blocks
        episodes += new_episodes
    return blocks, episodes


def test_frames_and_transitions_count_all_lanes() -> None:
    actor = make_actor()
    run(actor, 8)
    assert actor.num_steps == 8
    assert actor.num_frames == actor.num_transitions == 24


def test_every_step_of_every_finished_episode_is_in_a_block() -> None:
    blocks, episodes = run(make_actor(), 150)
    lengths = {(lane, n): 0 for lane in range(3) for n in range(100)}
    for block in blocks:
        lengths[block.lane, block.episode] += block.length
    number = [0, 0, 0]
    for episode in episodes:
        assert lengths[episode.lane, number[episode.lane]] == episode.length
        number[episode.lane] += 1
    assert min(number) > 10


def test_an_episode_has_one_arm() -> None:
    blocks, episodes = run(make_actor(), 150)
    arms: dict[tuple[int, int], set[int]] = {}
    for block in blocks:
        arms.setdefault((block.lane, block.episode), set()).add(block.arm)
    assert all(len(used) == 1 for used in arms.values())
    number = [0, 0, 0]
    for episode in episodes:
        assert arms[episode.lane, number[episode.lane]] == {episode.arm}
        number[episode.lane] += 1


def test_each_lane_sweeps_the_arms_with_a_bandit_of_its_own() -> None:
    _, episodes = run(make_actor(), 100)
    for lane in range(3):
        assert [e.arm for e in episodes if e.lane == lane][:4] == [0, 1, 2, 3]
    late = [[e.arm for e in episodes if e.lane == lane][4:12] for lane in range(3)]
    assert late[0] != late[1]


def test_bandits_learn_the_undiscounted_extrinsic_returns() -> None:
    actor = make_actor()
    _, episodes = run(actor, 150)
    summary = actor.summary()
    for arm in range(4):
        returns = [e.episode_return for e in episodes if e.arm == arm]
        assert summary[f"arm_plays/{arm}"] == len(returns)
        assert summary[f"arm_return/{arm}"] == pytest.approx(np.mean(returns))


def test_regression_nothing_is_recorded_before_an_episode_ends() -> None:
    # deep_rl_zoo taught (arm 0, return 0) on the first reset: the best mean in negative games.
    actor = make_actor(env=walk(3, max_steps=11))
    run(actor, 10)
    assert not any(value for name, value in actor.summary().items() if "plays" in name)
    assert not any("arm_return" in name for name in actor.summary())
    run(actor, 1)
    assert actor.summary()["arm_plays/0"] == 3


def test_each_lane_acts_with_its_own_epsilon() -> None:
    blocks, _ = run(make_actor(first_lane=2, config=changed(CONFIG, actor={"lanes": 8})), 100)
    epsilon = lane_epsilons(0.4, 8.0, np.arange(2, 5), 8)
    for lane in range(3):
        probabilities = np.concatenate(
            [block.steps["action_prob"] for block in blocks if block.lane == lane + 2]
        )
        rare, usual = epsilon[lane] / 3, 1 - epsilon[lane] * 2 / 3
        is_either = np.isclose(probabilities, rare) | np.isclose(probabilities, usual)
        assert is_either.all()


def test_annealing_begins_with_random_actions_and_ends_with_the_epsilons_of_the_lanes() -> None:
    config = changed(CONFIG, actor={"lanes": 8, "anneal_steps": 80})
    actor = make_actor(config, first_lane=2)
    final = lane_epsilons(0.4, 8.0, np.arange(2, 5), 8)
    actor.step()
    np.testing.assert_array_equal(actor.player.epsilon, np.ones(3))
    run(actor, 5)  # the sixth step is played after five steps of all eight lanes
    np.testing.assert_allclose(actor.player.epsilon, (1 + final) / 2)
    run(actor, 5)
    np.testing.assert_array_equal(actor.player.epsilon, final)


def test_weights_are_pulled_every_pull_period_steps() -> None:
    learner, asked = make_learner(CONFIG), []

    def published() -> tuple[Weights, int]:
        asked.append(actor.num_steps)
        return learner.weights()[0], len(asked)

    env = walk(3)
    actor = Actor(CONFIG, env, layout_of(CONFIG, env), published, CPU)
    for step in range(12):
        if step == 6:  # after the pull of step 5, so they take effect from step 10 on
            with torch.no_grad():
                for parameter in learner.networks.parameters():
                    parameter.zero_()
        actor.step()
        played_zero = not any(p.any() for p in actor.player.networks.parameters())
        assert played_zero == (step >= 10)
    assert asked == [0, 5, 10]


def test_an_unchanged_version_is_not_loaded_again() -> None:
    learner = make_learner(CONFIG)
    actor = make_actor(learner=learner)
    run(actor, 1)
    with torch.no_grad():
        next(learner.networks.parameters()).add_(1.0)  # without an update: the version is the same
    run(actor, 10)
    assert not same_tree(
        dict(actor.player.networks.state_dict()), dict(learner.networks.state_dict())
    )


@pytest.mark.parametrize(
    "agent", ["agent57", "agent57-h-mixture", "ngu", "r2d2", "r2d2-retrace", "r2d2-bandit"]
)
def test_first_priorities_are_the_learners_by_definition(agent: str) -> None:
    # Before the first update, online, target and acting weights are equal.
    config = changed(small_config(agent), replay={"priority_exponent": 1.0})
    learner = make_learner(config)
    env = walk(3, max_steps=19, terminates=True)
    layout = layout_of(config, env)
    actor = Actor(config, env, layout, learner.weights, CPU)
    replay = Replay(config.replay, config.sequence, layout, np.random.default_rng(0))
    for block in run(actor, 120)[0]:
        replay.add(block)
    batch = replay.sample(300)
    first = replay.state_dict()["weight"][batch.key - replay.live_ids.start]
    assert len(set(batch.key.tolist())) > 40
    assert (~batch.mask).any()
    assert (batch.start > 0).any()
    priorities = learner.update(batch).priorities
    torch.testing.assert_close(first.float(), priorities, rtol=1e-4, atol=1e-5)


def test_first_priorities_are_scaled_like_the_learners() -> None:
    """The learner's running squares arrive with its weights."""
    config = changed(
        small_config("agent57"),
        replay={"priority_exponent": 1.0},
        learner={"td_scale": "priority"},
    )
    squares = torch.linspace(2.0, 9.0, 2 * config.family.arms).view(2, -1)
    found = []
    for known in (torch.ones_like(squares), squares):
        learner = make_learner(config)
        running = torch.cat([known, torch.ones_like(known[:1])])
        learner.load_state_dict({**learner.state_dict(), "td_squares": running})
        actor = make_actor(config, learner=learner)
        found.append([block for block in run(actor, 60)[0] if block.priority > 0])
    for plain, scaled in zip(*found, strict=True):
        extrinsic = float(squares[0, plain.arm].sqrt())
        if betas(config.family)[plain.arm] == 0:
            assert scaled.priority == pytest.approx(plain.priority / extrinsic, rel=1e-5)
        else:
            assert scaled.priority != pytest.approx(plain.priority / extrinsic, rel=1e-5)


def test_diagnostics_are_means_over_the_lanes() -> None:
    actor = make_actor()
    _, _, scalars = actor.step()
    assert scalars["curiosity/modulation"] == scalars["curiosity/modulation_at_1"] == 1.0  # warm-up
    assert scalars["reward/intrinsic"] == pytest.approx(scalars["curiosity/novelty"])


@pytest.mark.parametrize("num_steps", [1, 7, 23])
@pytest.mark.parametrize("anneal_steps", [0, 90])
def test_continues_exactly_from_its_saved_state(num_steps: int, anneal_steps: int) -> None:
    config = changed(CONFIG, actor={"anneal_steps": anneal_steps})
    actor, other = make_actor(config), make_actor(config)
    run(actor, num_steps)
    run(other, 1)
    assert not other.load_state_dict(actor.state_dict()).any()
    (blocks, episodes), (other_blocks, other_episodes) = run(actor, 40), run(other, 40)
    assert episodes == other_episodes
    assert [b.to_bytes() for b in blocks] == [b.to_bytes() for b in other_blocks]
    assert same_tree(actor.state_dict(), other.state_dict())


def test_the_state_of_an_actor_is_a_copy() -> None:
    actor = make_actor()
    run(actor, 5)
    state = actor.state_dict()
    kept = torch.tensor(0), {k: v.clone() for k, v in state["assembler"].items()}
    run(actor, 5)
    assert same_tree(state["assembler"], kept[1])


def test_split_actors_are_the_lanes_of_one_by_law() -> None:
    config = changed(CONFIG, curiosity={"warmup_steps": 5})
    whole = make_actor(config)
    parts = [
        make_actor(config, walk(1, 11, terminates=True), first_lane=0),
        make_actor(config, walk(2, 11, terminates=True), first_lane=1),
    ]
    _, episodes = run(whole, 80)
    split = [episode for part in parts for episode in run(part, 80)[1]]
    for lane in range(3):
        one = [(e.arm, e.length, e.episode_return) for e in episodes if e.lane == lane]
        assert one == [(e.arm, e.length, e.episode_return) for e in split if e.lane == lane]
        assert len(one) > 5


def test_the_factors_of_rewards_are_logged_as_means_over_lanes() -> None:
    actor = make_actor()
    _, _, logged = actor.step()
    assert actor.player.curiosity is not None
    for name, values in actor.player.curiosity.last.items():
        assert logged[f"curiosity/{name}"] == pytest.approx(float(values.mean()))
    assert logged["curiosity/memory_fill"] == 2 / CONFIG.curiosity.memory_size
    incurious, _, logged = make_actor(small_config("r2d2")).step()
    assert not [name for name in logged if name.startswith("curiosity/")]
    assert incurious == []
