"""The evaluator: its phases, its bandit's episodes, its weights, and that it stores nothing."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import agent57.evaluator
from agent57.config import Config
from agent57.evaluator import Evaluator
from agent57.player import Weights
from agent57.types import Episode, Played
from tests.small import CPU, changed, make_learner, same_tree, small_config, walk

CONFIG = small_config(evaluator={"phase_episodes": 5})


def make_evaluator(config: Config = CONFIG, lanes: int = 1, **walk_options: bool) -> Evaluator:
    learner = make_learner(config)
    return Evaluator(config, walk(lanes, 4, **walk_options), learner.weights, CPU)


def run(evaluator: Evaluator, num_episodes: int) -> list[Episode]:
    episodes: list[Episode] = []
    while len(episodes) < num_episodes:
        episodes += evaluator.step(frames=77)
    return episodes


def test_five_episodes_of_training_then_five_of_evaluation() -> None:
    episodes = run(make_evaluator(), 22)
    phases = [episode.phase for episode in episodes]
    assert phases == (["train"] * 5 + ["evaluate"] * 5) * 2 + ["train"] * 2
    assert {(e.source, e.lane, e.frames) for e in episodes} == {("evaluator", 0, 77)}


def test_training_sweeps_the_arms_and_evaluation_plays_the_best() -> None:
    episodes = run(make_evaluator(terminates=True), 40)
    returns: dict[int, list[float]] = {}
    arms = []
    for episode in episodes:
        if episode.phase == "train":
            arms.append(episode.arm)
            returns.setdefault(episode.arm, []).append(episode.episode_return)
        else:
            best = max(sorted(returns), key=lambda arm: np.mean(returns[arm]))
            assert episode.arm == best
    assert arms[:4] == [0, 1, 2, 3]


def test_evaluation_episodes_do_not_teach_the_bandit() -> None:
    evaluator = make_evaluator()
    episodes = run(evaluator, 30)
    taught = evaluator.state_dict()["controller"]
    trained = [e for e in episodes if e.phase == "train"]
    assert taught["arm"].tolist() == [e.arm for e in trained]
    assert taught["episode_return"].tolist() == [e.episode_return for e in trained]


def test_the_score_is_the_mean_of_each_evaluation_phase() -> None:
    evaluator = make_evaluator(terminates=True)
    episodes: list[Episode] = []
    for _ in range(4):
        episodes += run(evaluator, 9)
        done = [e.episode_return for e in episodes if e.phase == "evaluate"]
        whole = done[: len(done) // 5 * 5][-5:]
        expected = float(np.mean(whole)) if whole else None
        assert evaluator.mean_return == pytest.approx(expected)
    summary = evaluator.summary()
    assert summary["evaluator/return"] == evaluator.mean_return
    assert summary["evaluator/best_arm"] == evaluator.best_arm


def test_weights_are_pulled_at_the_start_of_each_phase() -> None:
    learner, pulled_after = make_learner(CONFIG), []
    episodes: list[Episode] = []

    def published() -> tuple[Weights, int]:
        pulled_after.append(len(episodes))
        return learner.networks.state_dict(), len(pulled_after)

    evaluator = Evaluator(CONFIG, walk(1, 4), published, CPU)
    while len(episodes) < 21:
        if len(episodes) == 7:
            with torch.no_grad():
                next(learner.networks.parameters()).zero_()
        episodes += evaluator.step(frames=0)
        seen = not next(evaluator.player.networks.parameters()).any()
        assert seen == (len(pulled_after) >= 3)
    evaluator.step(frames=0)
    assert pulled_after == [0, 5, 10, 15, 20]


def test_both_phases_act_with_the_evaluation_epsilon() -> None:
    evaluator, played = make_evaluator(), []
    step = evaluator.player.step

    def record() -> Played:
        played.append(step())
        return played[-1]

    evaluator.player.step = record  # type: ignore[method-assign]
    run(evaluator, 12)
    probabilities = np.array([row.action_prob[0] for row in played])
    assert np.isin(probabilities, np.float32([0.01 / 3, 1 - 0.01 * 2 / 3])).all()


def test_regression_evaluation_arms_are_not_drawn_at_random() -> None:
    # yuta0821 evaluates with epsilon = 0.5 arms, deep_rl_zoo always with arm 0.
    config = changed(CONFIG, evaluator_controller={"epsilon": 1.0})
    episodes = run(make_evaluator(config, terminates=True), 60)
    evaluated = [e for e in episodes if e.phase == "evaluate"]
    for start in range(0, len(evaluated), 5):
        assert len({e.arm for e in evaluated[start : start + 5]}) == 1
    assert {e.arm for e in evaluated} != {0}


def test_nothing_of_the_replay_is_within_reach() -> None:
    tree = ast.parse(Path(agent57.evaluator.__file__).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not any(name and "replay" in name for name in imported)


def test_several_lanes_share_one_bandit_and_one_count_of_episodes() -> None:
    evaluator = make_evaluator(lanes=3)
    episodes = run(evaluator, 60)
    assert {e.lane for e in episodes} == {0, 1, 2}
    by_phase = [e.phase for e in episodes].count("train")
    assert abs(by_phase - 30) <= 5
    arms = [e.arm for e in episodes if e.phase == "train"]
    assert arms[:4] == [0, 1, 2, 3]


@pytest.mark.parametrize("num_episodes", [2, 7, 13])
def test_continues_exactly_from_its_saved_state(num_episodes: int) -> None:
    evaluator, other = make_evaluator(terminates=True), make_evaluator(terminates=True)
    run(evaluator, num_episodes)
    evaluator.step(0)
    other.step(0)
    assert not other.load_state_dict(evaluator.state_dict()).any()
    assert run(evaluator, 12) == run(other, 12)
    assert evaluator.mean_return == other.mean_return
    assert same_tree(evaluator.state_dict(), other.state_dict())


@pytest.mark.parametrize(("num_episodes", "lanes"), [(2, 1), (4, 1), (7, 1), (7, 3)])
def test_a_successor_in_the_midst_of_an_episode_plays_that_episode_anew(
    num_episodes: int, lanes: int
) -> None:
    evaluator, successor = make_evaluator(lanes=lanes), make_evaluator(lanes=lanes)
    episodes = run(evaluator, num_episodes)
    for _ in range(2):  # of four steps
        assert not evaluator.step(frames=77)
    successor.load_lasting_state(evaluator.lasting_state())
    episodes += run(successor, 20 - len(episodes))
    phases = [episode.phase for episode in episodes]
    assert phases[:20] == (["train"] * 5 + ["evaluate"] * 5) * 2
    scores = [e.episode_return for e in episodes[:20] if e.phase == "evaluate"]
    assert successor.mean_return == pytest.approx(np.mean(scores[5:]))
