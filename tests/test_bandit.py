import io
import itertools
from typing import Any

import numpy as np
import pytest
import torch

from agent57.bandit import Controller, make_controller
from agent57.config import ControllerConfig

GREEDY = ControllerConfig(epsilon=0.0)


def controller(
    num_arms: int, config: ControllerConfig = GREEDY, lane: int = 0, seed: int = 0
) -> Controller:
    return make_controller(config, num_arms, lane, np.random.default_rng(seed))


def arm_by_definition(history: list[tuple[int, float]], num_arms: int, window: int) -> int:
    """Return the arm by the paper's rule, for epsilon = 0 and bonus 1."""
    if len(history) < num_arms:
        return len(history)
    scores = []
    for arm in range(num_arms):
        returns = [r for a, r in history[-window:] if a == arm]
        scores.append(sum(returns) / len(returns) + len(returns) ** -0.5 if returns else np.inf)
    return scores.index(max(scores))


@pytest.mark.parametrize(("num_arms", "window"), [(2, 2), (2, 3), (3, 3), (3, 5)])
def test_every_short_history_by_definition(num_arms: int, window: int) -> None:
    # For all returns of the first seven episodes, each arm follows the rule.
    for returns in itertools.product([0.0, 0.7, 1.5], repeat=7):
        bandit, history = controller(num_arms, ControllerConfig(window=window, epsilon=0.0)), []
        for episode_return in returns:
            arm = bandit.select()
            assert arm == arm_by_definition(history, num_arms, window)
            bandit.observe(arm, episode_return)
            history.append((arm, episode_return))


def test_upper_confidence_by_hand() -> None:
    bandit = controller(2)
    for arm, episode_return in [(0, 1.0), (1, 0.5), (0, 1.0), (0, 1.0), (0, 1.0)]:
        bandit.select()
        bandit.observe(arm, episode_return)
    # Arm 0: 1 + 1 / sqrt(4) = 1.5. Arm 1: 0.5 + 1 / sqrt(1) = 1.5. The lower index wins.
    assert bandit.select() == 0
    bandit.observe(0, 1.0)
    assert bandit.select() == 1
    counts, means = bandit.statistics()
    assert counts.tolist() == [5, 1]
    assert means.tolist() == [1.0, 0.5]


def test_bonus_scales_the_confidence() -> None:
    def chosen(bonus: float) -> int:
        bandit = controller(2, ControllerConfig(epsilon=0.0, bonus=bonus))
        for arm, episode_return in [(0, 10.0), (1, 0.0), (0, 10.0), (0, 10.0), (0, 10.0)]:
            bandit.select()
            bandit.observe(arm, episode_return)
        return bandit.select()

    assert chosen(0.0) == chosen(1.0) == 0
    assert chosen(30.0) == 1  # 10 + 30 / 2 against 0 + 30


def test_each_arm_comes_once_first_even_while_episodes_are_still_playing() -> None:
    bandit = controller(5, ControllerConfig(epsilon=1.0))
    assert [bandit.select() for _ in range(5)] == [0, 1, 2, 3, 4]


def test_an_episode_that_never_ended_is_tried_again() -> None:
    bandit = controller(3)
    arms = [bandit.select() for _ in range(3)]
    for arm in (arms[0], arms[2]):
        bandit.observe(arm, 1e6)
    assert bandit.select() == arms[1]


def test_window_forgets_old_episodes() -> None:
    bandit = controller(2, ControllerConfig(window=2, epsilon=0.0))
    for arm, episode_return in [(0, 10.0), (0, 10.0), (1, 1.0), (1, 1.0)]:
        bandit.select()
        bandit.observe(arm, episode_return)
    assert bandit.best() == 1
    assert bandit.select() == 0  # forgotten, hence tried again


def test_regression_window_that_never_slides() -> None:
    bandit, rng = controller(4, ControllerConfig(window=10)), np.random.default_rng(1)
    history = []
    for _ in range(200):
        arm, episode_return = int(rng.integers(4)), float(rng.normal())
        bandit.observe(arm, episode_return)
        history.append((arm, episode_return))
    counts, means = bandit.statistics()
    assert counts.sum() == 10
    for arm in range(4):
        returns = [r for a, r in history[-10:] if a == arm]
        assert counts[arm] == len(returns)
        assert means[arm] == pytest.approx(np.mean(returns) if returns else 0.0)


def test_regression_arm_zero_recorded_before_the_first_episode() -> None:
    # In a game of negative scores a made-up return of 0 would make arm 0 the best for ever.
    bandit = controller(2)
    assert bandit.statistics()[0].sum() == 0
    for episode_return in (-21.0, -20.0):
        bandit.observe(bandit.select(), episode_return)
    assert bandit.statistics()[0].tolist() == [1, 1]
    assert bandit.best() == 1


def test_regression_unseen_arm_scored_by_a_finite_or_the_lowest_bonus() -> None:
    bandit = controller(3, ControllerConfig(window=2, epsilon=0.0))
    for arm, episode_return in [(0, 1e9), (1, 1e9), (2, 1e9)]:
        bandit.select()
        bandit.observe(arm, episode_return)
    assert bandit.select() == 0  # only arms 1 and 2 are left in the window


def test_regression_logarithm_and_prior_counts_in_the_bonus() -> None:
    # After 100 episodes sqrt(log(100) / N) would still prefer arm 1; 1 / sqrt(N) does not.
    bandit = controller(2)
    for arm in [0] * 96 + [1] * 4:
        bandit.select()
        bandit.observe(arm, 1.0 if arm == 0 else 0.5)
    assert bandit.select() == 0
    assert 1 + 0.1 * np.log(100) ** 0.5 < 0.5 + 0.5 * np.log(100) ** 0.5


def test_best_ignores_arms_that_were_never_tried() -> None:
    bandit = controller(3)
    bandit.observe(2, -5.0)
    assert bandit.best() == 2


def test_best_before_any_episode_is_the_exploiting_arm() -> None:
    assert controller(3).best() == 0


def test_the_surest_arm_by_hand() -> None:
    """Arm 0 has 1 and 3, arm 1 has 3.1 once: deviation sqrt(2 / 1), bounds 2 - 1 and 3.1 - 1.41."""
    bandit = controller(3)
    assert bandit.surest() == 0  # nothing is known
    for arm, episode_return in [(0, 1.0), (0, 3.0), (1, 3.1)]:
        bandit.observe(arm, episode_return)
    assert bandit.surest() == 1
    bandit.observe(1, 0.1)  # mean 1.6, below arm 0's 2 with as many episodes
    assert bandit.surest() == 0


def test_few_lucky_episodes_do_not_make_an_arm_the_surest() -> None:
    # The returns of a run of DoorKey-8x8: arm 1 is the best by its mean, and returns 0.68 later.
    bandit = controller(3, ControllerConfig(window=100))
    for episode_return in [0.95] * 66 + [0.0] * 8:
        bandit.observe(0, episode_return)
    for _ in range(6):
        bandit.observe(1, 0.857)
    assert bandit.best() == 1
    assert bandit.surest() == 0


def test_the_surest_arm_does_not_depend_on_the_unit_of_returns_by_law() -> None:
    history = [(0, 1.0), (0, 0.2), (1, 0.9), (2, 0.5), (2, 0.6), (2, 0.7), (1, 0.1), (0, 0.8)]
    chosen = set()
    for factor, shift in itertools.product((1e-3, 1.0, 1e3), (-21.0, 0.0)):
        bandit = controller(4)
        for arm, episode_return in history:
            bandit.observe(arm, factor * (episode_return + shift))
        chosen.add(bandit.surest())
    assert len(chosen) == 1


def test_best_has_no_bonus() -> None:
    bandit = controller(2)
    for arm, episode_return in [(0, 1.0), (0, 1.0), (1, 0.9)]:
        bandit.select()
        bandit.observe(arm, episode_return)
    assert bandit.best() == 0
    assert bandit.select() == 1


def test_epsilon_is_the_rate_of_random_arms() -> None:
    bandit = controller(4, ControllerConfig(epsilon=0.5))
    for arm in range(4):
        bandit.select()
        bandit.observe(arm, 1000.0 * (arm == 2))
    counts = np.bincount([bandit.select() for _ in range(20_000)], minlength=4) / 20_000
    np.testing.assert_allclose(counts, [0.125, 0.125, 0.625, 0.125], atol=0.015)


def test_uniform_draws_every_arm_alike() -> None:
    bandit = controller(4, ControllerConfig(kind="uniform"))
    bandit.observe(2, 1e6)
    counts = np.bincount([bandit.select() for _ in range(20_000)], minlength=4) / 20_000
    np.testing.assert_allclose(counts, 0.25, atol=0.015)


def test_fixed_plays_the_arm_of_its_lane() -> None:
    arms = [controller(3, ControllerConfig(kind="fixed"), lane).select() for lane in range(7)]
    assert arms == [0, 1, 2, 0, 1, 2, 0]


def test_exploit_plays_arm_zero() -> None:
    bandit = controller(3, ControllerConfig(kind="exploit"), lane=2)
    bandit.observe(1, 1e6)
    assert [bandit.select() for _ in range(5)] == [0] * 5
    assert bandit.best() == 1


@pytest.mark.parametrize("kind", ["ucb", "uniform", "fixed", "exploit"])
def test_one_arm_needs_no_choice(kind: str) -> None:
    bandit = controller(1, ControllerConfig(kind=kind), lane=5)
    for _ in range(4):
        assert bandit.select() == 0
        bandit.observe(0, -3.0)
    assert bandit.best() == 0


@pytest.mark.parametrize("num_episodes", [0, 3, 50])
def test_continues_from_its_saved_state(num_episodes: int) -> None:
    config, rng = ControllerConfig(window=8), np.random.default_rng(5)
    bandit = controller(4, config)
    for _ in range(num_episodes):
        bandit.observe(bandit.select(), float(rng.normal()))
    bandit.select()  # an episode is being played

    file = io.BytesIO()
    torch.save(bandit.state_dict(), file)
    file.seek(0)
    resumed = controller(4, config, seed=99)
    resumed.observe(3, 7.0)  # loading overwrites this
    resumed.load_state_dict(torch.load(file, weights_only=True))

    for episode_return in rng.normal(size=40):
        arm = bandit.select()
        assert resumed.select() == arm
        assert resumed.best() == bandit.best()
        bandit.observe(arm, float(episode_return))
        resumed.observe(arm, float(episode_return))


@pytest.mark.parametrize("sweep", ["aligned", "staggered"])
def test_staggered_sweeps_of_lanes_begin_with_different_arms(sweep: Any) -> None:
    for lane in (0, 2, 5):
        rng = np.random.default_rng(0)
        controller = make_controller(ControllerConfig(sweep=sweep), 4, lane, rng)
        first = lane if sweep == "staggered" else 0
        assert [controller.select() for _ in range(4)] == [(first + i) % 4 for i in range(4)]
