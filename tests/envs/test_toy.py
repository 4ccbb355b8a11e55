import numpy as np

from agent57.envs.rules import RulesEnv
from agent57.envs.toy import TOYS, Bandit, Chain, Cue, Discounting, Mine
from tests.envs.playing import begin


def returns(env: RulesEnv, policy) -> np.ndarray:
    """Return each lane's first return under a policy, a function of observation and step."""
    observation = begin(env)
    total, is_playing = np.zeros(env.num_lanes), np.ones(env.num_lanes, bool)
    t = 0
    while is_playing.any():
        step = env.step(policy(observation, t))
        total += step.reward * is_playing
        ended = step.terminated | step.truncated
        is_playing &= ~ended
        observation = env.reset(ended, np.zeros(env.num_lanes, np.int64))
        t += 1
    return total


def test_names_are_those_of_the_specs():
    assert all(rules().spec.name == name for name, rules in TOYS.items())


def test_the_chain_pays_best_at_its_far_end():
    env = RulesEnv(Chain(length=10), 2)
    assert (returns(env, lambda observation, t: np.ones(2, np.int64)) == env.optimal_return).all()
    left = returns(env, lambda observation, t: np.zeros(2, np.int64))
    np.testing.assert_allclose(left, Chain.temptation)


def test_the_chain_takes_its_length_to_walk_and_has_a_limit():
    env = RulesEnv(Chain(length=4), 1)
    begin(env)
    assert [bool(env.step(np.array([1])).terminated[0]) for _ in range(4)] == [False] * 3 + [True]
    begin(env)
    steps = [env.step(np.array([(t + 1) % 2])) for t in range(16)]
    assert [bool(step.truncated[0]) for step in steps] == [False] * 15 + [True]


def test_the_cue_pays_for_remembering_its_first_observation():
    env = RulesEnv(Cue(length=5), 400)
    cue = begin(env)[:, 1].astype(np.int64)
    assert (returns(env, lambda observation, t: cue) == env.optimal_return).all()
    assert (returns(env, lambda observation, t: 1 - cue) == -1).all()
    assert abs(returns(env, lambda observation, t: np.zeros(400, np.int64)).mean()) < 0.2


def test_the_cue_is_shown_once_and_the_question_last():
    env = RulesEnv(Cue(length=3), 1)
    seen = [begin(env)[0]]
    for _ in range(4):
        step = env.step(np.array([0]))
        assert not step.terminated[0]
        assert step.reward[0] == 0
        seen.append(step.observation[0])
    assert [row.tolist() for row in seen[1:]] == [[0, 0, 0]] * 3 + [[0, 0, 1]]
    assert seen[0].sum() == 1
    assert env.step(np.array([0])).terminated[0]


def test_the_bandit_pays_for_its_context():
    env = RulesEnv(Bandit(contexts=3), 300)
    best = returns(env, lambda observation, t: observation.argmax(axis=1))
    assert (best == env.optimal_return).all()
    fixed = returns(env, lambda observation, t: np.zeros(300, np.int64))
    assert abs(fixed.mean() - 1 / 3) < 0.1


def discounted(gamma: float) -> list[float]:
    """Play each chain of `Discounting`; return its discounted value at the start."""
    env = RulesEnv(Discounting(), 3)
    begin(env)
    value = np.zeros(3)
    for t in range(Discounting.max_steps):
        step = env.step(np.arange(3))
        value += gamma**t * step.reward
        assert step.terminated.all() == (t == Discounting.max_steps - 1)
    return value.tolist()


def test_the_chains_of_discounting_are_worth_what_the_table_says():
    np.testing.assert_allclose(discounted(0.99), [9.606, 8.219, 4.622], atol=5e-4)
    np.testing.assert_allclose(discounted(0.997), [9.881, 10.082, 9.284], atol=5e-4)
    np.testing.assert_allclose(discounted(0.9999), [9.996, 10.968, 12.377], atol=5e-4)
    np.testing.assert_allclose(discounted(1.0), Discounting.pays, rtol=1e-6)
    assert np.argmax(discounted(0.99817)) == 1
    assert np.argmax(discounted(0.99819)) == 2
    assert max(Discounting.pays) == Discounting.optimal_return


def test_every_action_off_the_chain_of_discounting_costs_a_slip():
    env = RulesEnv(Discounting(), 3)
    slipping = returns(env, lambda observation, t: (np.arange(3) + (0 < t <= 7)) % 3)
    np.testing.assert_allclose(slipping, np.array(Discounting.pays) - 7 * 0.5, rtol=1e-6)


def test_discounting_shows_chain_payment_and_time():
    env = RulesEnv(Discounting(), 2)
    assert begin(env).tolist() == [[1, 0, 0, 0, 0, 0]] * 2
    seen = [env.step(np.array([0, 2])).observation for _ in range(10)]
    np.testing.assert_allclose(seen[3], [[0, 1, 0, 0, 0, 0.04], [0, 0, 0, 1, 0, 0.04]], rtol=1e-6)
    np.testing.assert_allclose(seen[4], [[0, 1, 0, 0, 1, 0.05], [0, 0, 0, 1, 0, 0.05]], rtol=1e-6)


def mine_moves() -> tuple[np.ndarray, np.ndarray]:
    """Return next cells and rewards [N, 4] of each action in every cell that can be reached."""
    rules = Mine()
    cells = rules.start(np.zeros(1, np.int64)).tolist()
    leads, earns = [], []
    for cell in cells:  # grows as cells are found
        there, reward, terminated = rules.move(np.array([cell] * 4), np.arange(4))
        assert not terminated.any()
        cells += [c for c in np.unique(there, axis=0).tolist() if c not in cells]
        leads.append([cells.index(c) for c in there.tolist()])
        earns.append(reward.astype(np.float64))
    return np.array(leads), np.array(earns)


def test_the_best_return_of_the_mine_is_that_of_dynamic_programming():
    leads, earns = mine_moves()
    assert len(leads) == 5 * 9 + 4
    value = np.zeros(len(leads))
    for _ in range(Mine.max_steps):
        value = (earns + value[leads]).max(axis=1)
    np.testing.assert_allclose(value[0], Mine.optimal_return, rtol=1e-6)
    # Going there takes 34 moves, of which the last is paid. Then the agent waits for 66.
    np.testing.assert_allclose(Mine.optimal_return, 0.1 + 66 * 0.1 - 34 * 0.0005)


def test_random_steps_practically_never_find_the_mine_and_standing_still_is_best_without_it():
    leads, earns = mine_moves()
    at_mine = np.unique(leads[earns > 0])
    assert len(at_mine) == 1
    chance, found = np.eye(len(leads))[0], 0.0
    for _ in range(Mine.max_steps):
        there = np.zeros(len(leads))
        np.add.at(there, leads, chance[:, None] / 4)
        found += there[at_mine].item()
        there[at_mine] = 0.0
        chance = there
    assert 1.8e-6 < found < 2.0e-6
    assert set(np.round(earns[earns <= 0], 6)) == {0.0, -0.0005}


def test_no_direction_leads_far_along_the_corridor():
    leads, _ = mine_moves()
    for action in range(4):
        cell = 0
        for _ in range(20):
            cell = leads[cell, action]
        assert cell <= 8  # cells are numbered along the corridor


def test_the_mine_shows_row_and_column():
    env = RulesEnv(Mine(), 2)
    first = begin(env)
    assert first.shape == (2, 18)
    assert np.argwhere(first[0]).ravel().tolist() == [0, 9 + 0]
    moved = env.step(np.array([3, 0])).observation
    assert np.argwhere(moved[0]).ravel().tolist() == [0, 9 + 1]
    assert np.array_equal(moved[1], first[1])  # nothing is above the first row


def test_the_mine_is_drawn_from_above():
    rules = Mine()
    cells = rules.picture(np.array([0, 3]))[8::16, 8::16] > 0  # one pixel of each cell
    assert cells[..., 0].sum() == 81 - 49
    assert np.argwhere(cells[..., 1]).tolist() == [[6, 4]]
    assert np.argwhere(cells[..., 2]).tolist() == [[0, 3]]
