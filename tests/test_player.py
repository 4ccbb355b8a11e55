"""Acting: probabilities by hand, alignment against an unrolled network, seeds by law."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from agent57.config import Config
from agent57.curiosity.episodic import EpisodicMemory
from agent57.envs.make import make_env
from agent57.envs.rules import RulesEnv
from agent57.nets.networks import make_networks
from agent57.ops.family import betas
from agent57.player import Player
from agent57.seeds import Role
from agent57.types import Played
from tests.small import CPU, SPEC, changed, make_learner, same_tree, small_config, walk

ROLES = (Role.ACTOR_EPISODES, Role.ACTOR_ACTIONS)
EPSILON = 0.4
CONFIG = small_config(curiosity={"warmup_steps": 10**6})  # alpha is 1


def make_player(
    config: Config = CONFIG,
    env: RulesEnv | None = None,
    epsilon: float = EPSILON,
    first_lane: int = 0,
) -> Player:
    torch.set_num_threads(1)
    env = env or walk(3)
    return Player(config, env, np.full(env.num_lanes, epsilon), ROLES, first_lane, CPU)


def play(player: Player, num_steps: int, arms: list[int]) -> list[Played]:
    """Play steps in all lanes; every episode of a lane has the same arm."""
    lanes = np.ones(len(arms), bool)
    rows = []
    for _ in range(num_steps):
        if lanes.any():
            player.begin(lanes, np.array(arms))
        rows.append(player.step())
        lanes = rows[-1].terminated | rows[-1].truncated
    return rows


def same_play(first: list[Played], second: list[Played]) -> bool:
    names = Played.__dataclass_fields__
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for a, b in zip(first, second, strict=True)
        for name in names
    )


def is_first(rows: list[Played], t: int, lane: int) -> bool:
    return t == 0 or bool(rows[t - 1].truncated[lane] or rows[t - 1].terminated[lane])


def test_recorded_probabilities_are_those_of_the_mixture_by_hand() -> None:
    rows = play(make_player(), 60, [0, 1, 3])
    beta = betas(CONFIG.family)[[0, 1, 3]]
    num_greedy = 0
    for row in rows:
        mixed = row.value[0] + beta[:, None] * row.value[1]
        is_greedy = row.action == mixed.argmax(1)
        expected = np.where(is_greedy, 1 - EPSILON * 2 / 3, EPSILON / 3)
        np.testing.assert_allclose(row.action_prob, expected, rtol=1e-6)
        num_greedy += int(is_greedy.sum())
    assert 0.5 < num_greedy / 180 < 0.95  # 0.73: random actions that happen to be greedy included


def test_the_arm_of_a_lane_weighs_its_intrinsic_values() -> None:
    # Greedy lanes that differ only in their arm's beta follow different mixtures.
    family = {"betas": (0.0, 0.5, 5.0, 50.0)}
    rows = play(make_player(changed(CONFIG, family=family), epsilon=0.0), 30, [0, 2, 3])
    beta = np.array([0.0, 5.0, 50.0])
    for row in rows:
        mixed = row.value[0] + beta[:, None] * row.value[1]
        assert (row.action == mixed.argmax(1)).all()


def test_the_h_mixture_is_acted_on() -> None:
    config = changed(small_config("agent57-h-mixture"), family={"betas": (0.0, 0.5, 5.0, 50.0)})
    rows = play(make_player(config, epsilon=0.0), 20, [1, 2, 3])
    from agent57.ops.policy import mix_values

    weight = torch.tensor([[1.0, 1.0, 1.0], [0.5, 5.0, 50.0]])
    for row in rows:
        mixed = mix_values(torch.from_numpy(row.value), weight, "h", 1e-3)
        assert (row.action == mixed.argmax(1).numpy()).all()


def test_recorded_values_and_states_are_those_of_an_unrolled_network() -> None:
    # What the learner will see when it unrolls a window is what the player saw step by step.
    rows = play(make_player(), 30, [0, 1, 3])
    networks = make_networks(CONFIG, SPEC)

    def column(name: str, first: int, last: int, lane: int) -> torch.Tensor:
        values = [getattr(row, name)[lane] for row in rows[first:last]]
        return torch.from_numpy(np.stack(values))[:, None]

    for lane in range(3):
        starts = [t for t in range(30) if is_first(rows, t, lane)]
        assert len(starts) == 5  # episodes of seven steps
        for first, last in zip(starts, [*starts[1:], 30], strict=True):
            state = torch.from_numpy(rows[first].state[:, :, [lane]])
            assert not state.any()
            inputs = [
                networks.prepare(column("observation", first, last, lane)),
                column("previous_action", first, last, lane),
                column("previous_extrinsic", first, last, lane),
                column("previous_intrinsic", first, last, lane),
                torch.tensor([rows[first].arm[lane]]),
            ]
            with torch.no_grad():
                value, _ = networks.value(*inputs, state)
                middle = min(3, last - first - 1)
                early = [x[:middle] for x in inputs[:4]]
                _, before = networks.value(*early, inputs[4], state)
            recorded = np.stack([row.value[:, lane] for row in rows[first:last]], axis=1)
            torch.testing.assert_close(
                value[:, :, 0], torch.from_numpy(recorded), rtol=1e-5, atol=1e-5
            )
            kept = torch.from_numpy(rows[first + middle].state[:, :, [lane]])
            torch.testing.assert_close(before, kept, rtol=1e-5, atol=1e-5)


def test_rows_follow_each_other() -> None:
    rows = play(make_player(), 40, [0, 1, 3])
    for t in range(1, 40):
        now, before = rows[t], rows[t - 1]
        for lane in range(3):
            if is_first(rows, t, lane):
                assert now.previous_extrinsic[lane] == now.previous_intrinsic[lane] == 0
                assert not now.state[:, :, lane].any()
            else:
                assert now.previous_action[lane] == before.action[lane]
                assert now.previous_extrinsic[lane] == before.extrinsic[lane]
                assert now.previous_intrinsic[lane] == before.intrinsic[lane]
                assert np.array_equal(now.observation[lane], before.next_observation[lane])
                assert now.state[:, :, lane].any()
    assert any(row.extrinsic.all() and row.intrinsic.any() for row in rows)


def test_the_first_previous_action_is_random_and_seeded() -> None:
    rows = play(make_player(), 120, [0, 1, 3])
    starts = [(t, lane) for t in range(120) for lane in range(3) if is_first(rows, t, lane)]
    actions = [int(rows[t].previous_action[lane]) for t, lane in starts]
    assert set(actions) == {0, 1, 2}
    again = play(make_player(), 120, [0, 1, 3])
    assert actions == [int(again[t].previous_action[lane]) for t, lane in starts]


def test_a_new_episode_leaves_the_last_row_as_it_was() -> None:
    player = make_player()
    player.begin(np.ones(3, bool), np.zeros(3, np.int64))
    row = player.step()
    action = row.action.copy()
    for _ in range(20):  # the random previous action differs from the played one in some of them
        player.begin(np.ones(3, bool), np.zeros(3, np.int64))
    assert np.array_equal(row.action, action)


def test_intrinsic_rewards_belong_to_the_state_arrived_at_by_definition() -> None:
    # An action earns the novelty of its next state. The first state is only remembered.
    player = make_player()
    rows = play(player, 30, [0, 1, 3])
    embedding = make_networks(CONFIG, SPEC).embedding
    assert embedding is not None
    memory = EpisodicMemory(3, CONFIG.network.embedding_size, CONFIG.curiosity)

    def embed(observation: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return embedding(torch.from_numpy(observation)).numpy()

    for t, row in enumerate(rows):
        first = np.array([is_first(rows, t, lane) for lane in range(3)])
        if first.any():
            memory.reset(first)
            memory.add(embed(row.observation), first)
        expected = memory.novelty(embed(row.next_observation))
        np.testing.assert_allclose(row.intrinsic, expected, rtol=1e-4)


def test_truncated_lanes_come_with_the_values_of_their_last_state() -> None:
    rows = play(make_player(), 7, [0, 1, 3])
    last = rows[-1]
    assert last.truncated.all()
    assert not last.terminated.any()
    networks = make_networks(CONFIG, SPEC)

    def inputs(name: str, final: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.stack([*(getattr(row, name) for row in rows), final]))

    with torch.no_grad():
        value, _ = networks.value(
            networks.prepare(inputs("observation", last.next_observation)),
            inputs("previous_action", last.action),
            inputs("previous_extrinsic", last.extrinsic),
            inputs("previous_intrinsic", last.intrinsic),
            torch.tensor([0, 1, 3]),
            torch.from_numpy(rows[0].state),
        )
    torch.testing.assert_close(value[:, -1], torch.from_numpy(last.final_value))


def test_equal_seeds_play_equally_and_others_do_not() -> None:
    rows = play(make_player(), 25, [0, 1, 3])
    assert same_play(rows, play(make_player(), 25, [0, 1, 3]))
    other = play(make_player(changed(CONFIG, run={"seed": 1})), 25, [0, 1, 3])
    assert not same_play(rows, other)


def test_lanes_of_split_players_play_like_lanes_of_one_by_law() -> None:
    config = changed(CONFIG, curiosity={"warmup_steps": 5})
    together = play(make_player(config, walk(3, terminates=True)), 40, [0, 1, 3])
    split = [
        play(make_player(config, walk(1, terminates=True), first_lane=0), 40, [0]),
        play(make_player(config, walk(2, terminates=True), first_lane=1), 40, [1, 3]),
    ]
    for t, row in enumerate(together):
        for name in ("action", "previous_action", "extrinsic", "terminated", "observation"):
            parts = np.concatenate([getattr(rows[t], name) for rows in split])
            assert np.array_equal(getattr(row, name), parts), name
        intrinsic = np.concatenate([rows[t].intrinsic for rows in split])
        np.testing.assert_allclose(row.intrinsic, intrinsic, rtol=1e-4)
        value = np.concatenate([rows[t].value for rows in split], axis=1)
        np.testing.assert_allclose(row.value, value, rtol=1e-3, atol=1e-5)


def test_an_episode_keeps_its_embedding_when_weights_are_loaded() -> None:
    weights = make_learner(changed(CONFIG, run={"seed": 5})).networks.state_dict()
    kept, loaded = make_player(epsilon=1.0), make_player(epsilon=1.0)
    lanes, arms = np.ones(3, bool), np.array([0, 1, 3])
    for player in (kept, loaded):
        player.begin(lanes, arms)
    for t in range(14):
        if t in (3, 7):
            loaded.load_weights(weights, version=t)
        if t == 7:
            for player in (kept, loaded):
                player.begin(lanes, arms)
        rows = [player.step() for player in (kept, loaded)]
        same = np.array_equal(rows[0].intrinsic, rows[1].intrinsic)
        assert same == (t < 7), t  # the second episode takes the new embedding
        if t > 3:
            assert not np.array_equal(rows[0].value, rows[1].value)


def test_loading_weights_copies_them() -> None:
    player = make_player()
    weights = make_networks(changed(CONFIG, run={"seed": 5}), SPEC).state_dict()
    player.load_weights(weights, version=1)
    assert same_tree(dict(player.networks.state_dict()), dict(weights))
    for tensor in weights.values():
        tensor.zero_()
    assert any(tensor.any() for tensor in player.networks.state_dict().values())


def test_networks_follow_from_the_seed_alone() -> None:
    torch.manual_seed(3)
    first = make_networks(CONFIG, SPEC).state_dict()
    torch.rand(5)
    before = torch.random.get_rng_state()
    assert same_tree(dict(first), dict(make_networks(CONFIG, SPEC).state_dict()))
    assert torch.equal(before, torch.random.get_rng_state())


def test_acting_builds_no_graph() -> None:
    player = make_player()
    play(player, 3, [0, 1, 3])
    assert not any(p.requires_grad for p in player.networks.parameters())
    assert not player.state_dict()["state"].requires_grad


def test_ended_episodes_are_reported_with_their_totals() -> None:
    player = make_player(first_lane=10)
    rows = play(player, 7, [0, 1, 3])
    episodes = player.ended_episodes(np.array([True, False, True]), "actor", frames=99)
    assert [(e.lane, e.arm, e.length, e.frames) for e in episodes] == [
        (10, 0, 7, 99),
        (12, 3, 7, 99),
    ]
    for episode, lane in zip(episodes, (0, 2), strict=True):
        assert episode.episode_return == pytest.approx(sum(row.extrinsic[lane] for row in rows))
        assert episode.intrinsic_return == pytest.approx(sum(row.intrinsic[lane] for row in rows))
        assert episode.beta == betas(CONFIG.family)[episode.arm]


def test_without_a_curious_arm_there_is_no_intrinsic_reward() -> None:
    player = make_player(small_config("r2d2-retrace"))
    assert player.curiosity is None
    assert not any(row.intrinsic.any() for row in play(player, 5, [0, 0, 0]))


@pytest.mark.parametrize("core", ["lstm", "none"])
@pytest.mark.parametrize("agent", ["agent57", "ngu"])
def test_continues_in_mid_episode_from_its_saved_state(agent: str, core: str) -> None:
    config = changed(small_config(agent), network={"core": core})
    player, other = make_player(config), make_player(config)
    player.begin(np.ones(3, bool), np.array([0, 1, 3]))
    for _ in range(4):
        player.step()
    other.begin(np.ones(3, bool), np.zeros(3, np.int64))
    dropped = other.load_state_dict(player.state_dict())
    assert not dropped.any()
    assert same_play([player.step() for _ in range(3)], [other.step() for _ in range(3)])
    for each in (player, other):
        each.begin(np.ones(3, bool), np.array([2, 1, 0]))
    assert same_play([player.step() for _ in range(3)], [other.step() for _ in range(3)])
    assert same_tree(player.state_dict(), other.state_dict())


def test_any_kind_of_task_can_be_played() -> None:
    for name in ("random_coin", "toy/cue"):
        config = replace(CONFIG, env=replace(CONFIG.env, name=name))
        player = make_player(config, make_env(config.env, 2))
        rows = play(player, 3, [0, 1])
        assert all(np.isfinite(row.value).all() for row in rows)


def test_evaluations_play_the_average_and_actors_the_online_networks() -> None:
    config = changed(CONFIG, network={"average_rate": 0.5})
    networks = make_networks(config, SPEC)
    assert networks.average is not None
    for weight in networks.average.parameters():
        torch.nn.init.zeros_(weight)
    for is_evaluated in (True, False):
        env = walk(3)
        epsilon = np.zeros(env.num_lanes)
        player = Player(config, env, epsilon, ROLES, 0, CPU, networks, is_evaluated=is_evaluated)
        player.begin(np.ones(3, bool), np.zeros(3, np.int64))
        assert bool(player.decide().outputs.any()) != is_evaluated
