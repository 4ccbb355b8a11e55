"""The intrinsic reward as a whole: its factors by definition, one embedding per episode."""

from dataclasses import replace
from functools import partial

import numpy as np
import torch

from agent57.config import CuriosityConfig, NetworkConfig
from agent57.curiosity.episodic import EpisodicMemory
from agent57.curiosity.reward import Curiosity, versions_held
from agent57.nets.networks import Embedding, Rnd
from agent57.nets.torso import Trunk
from tests.small import same_tree

E, D = 3, 4
CONFIG = CuriosityConfig(memory_size=50, warmup_steps=0)
ALL = np.ones(E, bool)


class Setting:
    """Networks whose weights can be replaced, as a learner would, and a walk of random states."""

    def __init__(self, num_versions: int = 4, config: CuriosityConfig = CONFIG) -> None:
        torch.manual_seed(0)
        sizes = NetworkConfig(feature_size=8, embedding_size=D, inverse_head_size=6, rnd_size=6)
        make_trunk = partial(Trunk, sizes, "vector", (5,))
        self.embedding = Embedding(sizes, make_trunk(), 3)
        self.rnd = Rnd(sizes, make_trunk)
        self.curiosity = Curiosity(self.embedding, self.rnd, E, num_versions, config)
        self.version = 0

    def learn(self) -> None:
        """Replace all weights."""
        with torch.no_grad():
            for parameter in [*self.embedding.parameters(), *self.rnd.predictor.parameters()]:
                parameter.add_(0.1 * torch.randn_like(parameter))
        self.version += 1
        self.curiosity.refresh(self.version)

    def embed(self, state: torch.Tensor) -> np.ndarray:
        with torch.no_grad():
            return self.embedding(state).numpy()


def mask(*lanes: int) -> np.ndarray:
    return np.isin(np.arange(E), lanes)


def test_the_reward_is_novelty_times_modulation_by_definition() -> None:
    setting, memory = Setting(), EpisodicMemory(E, D, CONFIG)
    states = torch.randn(12, E, 5)
    setting.curiosity.begin(ALL, states[0])
    memory.add(setting.embed(states[0]), ALL)
    errors: list[np.ndarray] = []
    for state in states[1:]:
        reward = setting.curiosity.reward(state)
        with torch.no_grad():
            errors.append(setting.rnd(state).numpy())
        seen = np.stack(errors).astype(np.float64)
        deviation = np.where(len(errors) > 1, seen.std(0), 1)
        alpha = np.clip(1 + (errors[-1] - seen.mean(0)) / deviation, 1, 5)
        np.testing.assert_allclose(reward, memory.novelty(setting.embed(state)) * alpha, rtol=1e-4)
        np.testing.assert_allclose(setting.curiosity.last["modulation"], alpha, rtol=1e-4)


def test_the_horizon_of_errors_reaches_the_modulator() -> None:
    config = CuriosityConfig(memory_size=50, warmup_steps=0, error_horizon=2)
    always, lately = Setting(), Setting(config=config)
    state = torch.randn(E, 5)
    for each in (always, lately):
        each.curiosity.begin(ALL, state)
        for _ in range(5):
            each.curiosity.reward(state)
    assert (always.curiosity.modulator.moments.count == 5).all()
    assert (lately.curiosity.modulator.moments.count == 2).all()


def test_an_episode_keeps_the_embedding_it_began_with() -> None:
    setting, frozen = Setting(), Setting()
    states = torch.randn(6, E, 5)
    for each in (setting, frozen):
        each.curiosity.begin(ALL, states[0])
    for state in states[1:]:
        setting.learn()
        setting.curiosity.reward(state)
        frozen.curiosity.reward(state)
        novelty = setting.curiosity.last["novelty"]
        np.testing.assert_array_equal(novelty, frozen.curiosity.last["novelty"])


def test_the_next_episode_takes_the_newest_embedding() -> None:
    setting, memory = Setting(), EpisodicMemory(E, D, CONFIG)
    states = torch.randn(5, E, 5)
    setting.curiosity.begin(ALL, states[0])
    setting.learn()
    setting.curiosity.begin(ALL, states[0])
    memory.add(setting.embed(states[0]), ALL)
    for state in states[1:]:
        setting.curiosity.reward(state)
        expected = memory.novelty(setting.embed(state))
        np.testing.assert_allclose(setting.curiosity.last["novelty"], expected, rtol=1e-4)


def test_lanes_hold_different_versions_at_once() -> None:
    # Lane 1 begins a new episode after learning; the others keep their embeddings.
    setting, old, new = Setting(), Setting(), Setting()
    states = torch.randn(6, E, 5)
    setting.curiosity.begin(ALL, states[0])
    setting.learn()
    setting.curiosity.begin(mask(1), states[0])
    new.embedding.load_state_dict(setting.embedding.state_dict())
    new.curiosity.refresh(1)
    for each in (old, new):
        each.curiosity.begin(ALL, states[0])
    for state in states[1:]:
        for each in (setting, old, new):
            each.curiosity.reward(state)
        novelties = [each.curiosity.last["novelty"] for each in (old, new)]
        expected = np.where(mask(1), novelties[1], novelties[0])
        np.testing.assert_allclose(setting.curiosity.last["novelty"], expected, rtol=1e-4)
    assert not np.isclose(novelties[0], novelties[1]).any()


def test_no_more_embeddings_are_held_than_allowed() -> None:
    setting = Setting(num_versions=2)
    state = torch.randn(E, 5)
    setting.curiosity.begin(ALL, state)
    for lane in (0, 1, 2):
        setting.learn()
        setting.curiosity.begin(mask(lane), state)
    saved = setting.curiosity.state_dict()
    assert len(saved["held"]) == 2
    # Version 1 takes the free place for lane 0. Both are in use until lane 2 leaves version 0.
    assert sorted(saved["held_version"]) == [1, 3]
    assert setting.curiosity.versions.tolist() == [1, 1, 3]


def test_lanes_share_versions_by_number() -> None:
    lanes = (1, 3, 16, 39, 64, 256)
    assert [versions_held(0, n) for n in lanes] == [1, 3, 4, 4, 8, 32]
    assert [versions_held(5, n) for n in lanes] == [1, 3, 5, 5, 5, 5]


def test_a_place_nobody_uses_any_more_is_loaded_again() -> None:
    setting = Setting(num_versions=2)
    state = torch.randn(E, 5)
    setting.curiosity.begin(ALL, state)
    for _ in range(5):
        setting.learn()
        setting.curiosity.begin(ALL, state)
        assert (setting.curiosity.versions == setting.version).all()


def test_rnd_follows_the_learner_within_an_episode() -> None:
    setting, frozen = Setting(), Setting()
    state = torch.randn(E, 5)
    for each in (setting, frozen):
        each.curiosity.begin(ALL, state)
    setting.learn()
    for each in (setting, frozen):
        each.curiosity.reward(state)
    moments = setting.curiosity.modulator.moments, frozen.curiosity.modulator.moments
    assert (moments[0].mean != moments[1].mean).all()


def test_lanes_do_not_know_of_each_other() -> None:
    states = torch.randn(5, E, 5)
    other = states.clone()
    other[:, 0] += 1.0
    rewards = []
    for walk in (states, other):
        setting = Setting()
        setting.curiosity.begin(ALL, walk[0])
        rewards.append(np.stack([setting.curiosity.reward(state) for state in walk[1:]]))
    np.testing.assert_allclose(rewards[0][:, 1:], rewards[1][:, 1:], rtol=1e-4)


def test_continues_from_its_saved_state() -> None:
    setting, other = Setting(), Setting()
    states = torch.randn(6, E, 5)
    setting.curiosity.begin(ALL, states[0])
    setting.learn()
    setting.curiosity.begin(mask(1), states[1])
    for state in states[1:3]:
        setting.curiosity.reward(state)
    other.embedding.load_state_dict(setting.embedding.state_dict())
    other.rnd.load_state_dict(setting.rnd.state_dict())
    other.curiosity.load_state_dict(setting.curiosity.state_dict())
    for each in (setting, other):
        each.curiosity.begin(mask(2), states[3])
    for state in states[3:]:
        rewards = [each.curiosity.reward(state) for each in (setting, other)]
        np.testing.assert_array_equal(*rewards)
    assert same_tree(setting.curiosity.state_dict(), other.curiosity.state_dict())


def test_the_factors_of_rewards_are_reported_by_hand() -> None:
    setting = Setting(config=CuriosityConfig(memory_size=50, warmup_steps=0, max_modulation=1.5))
    state = torch.randn(E, 5)
    setting.curiosity.begin(ALL, state)
    for _ in range(9):  # with the first state, nine are known: not yet ten neighbours
        setting.curiosity.reward(state)
    last = setting.curiosity.last
    assert not last["familiar"].any()
    assert last["modulation_at_1"].all()  # because all errors were equal
    setting.curiosity.reward(state)
    last = setting.curiosity.last
    assert last["familiar"].all()
    np.testing.assert_allclose(last["memory_fill"], 11 / 50)
    assert (last["distance_sq"] == 0).all()

    elsewhere = torch.cat([state[:2], state[2:] + 100])
    setting.curiosity.reward(elsewhere)
    last = setting.curiosity.last
    assert last["familiar"].tolist() == [True, True, False]
    assert last["modulation_at_1"].tolist() == [True, True, False]
    assert last["modulation_at_max"].tolist() == [False, False, True]
    moved = np.square(setting.embed(elsewhere) - setting.embed(state)).sum(1)
    # Neighbours so far: 1 to 9, then ten of the known states twice, the last ones far away.
    np.testing.assert_allclose(last["distance_sq"], moved * 10 / (45 + 10 + 10), rtol=1e-4)


def test_rewards_in_units_of_their_mean_if_asked_by_definition() -> None:
    plain, scaled = Setting(), Setting(config=replace(CONFIG, reward_horizon=100))
    states = torch.randn(8, E, 5)
    rewards = []
    for setting in (plain, scaled):
        setting.curiosity.begin(ALL, states[0])
        rewards.append(np.stack([setting.curiosity.reward(state) for state in states[1:]]))
    mean = np.cumsum(rewards[0], axis=0) / np.arange(1, 8)[:, None]
    np.testing.assert_allclose(rewards[1], rewards[0] / mean, rtol=1e-5)


def test_the_unit_of_rewards_is_saved() -> None:
    config = replace(CONFIG, reward_horizon=100)
    first, second = Setting(config=config), Setting(config=config)
    states = torch.randn(9, E, 5)
    first.curiosity.begin(ALL, states[0])
    for state in states[1:5]:
        first.curiosity.reward(state)
    second.curiosity.load_state_dict(first.curiosity.state_dict())
    for state in states[5:]:
        assert (first.curiosity.reward(state) == second.curiosity.reward(state)).all()
    assert same_tree(first.curiosity.lasting_state(), second.curiosity.lasting_state())
