"""The paper's tables, row by row, against the defaults; and the sizes of its networks."""

from typing import Any

import pytest
import torch

from agent57.commands.train import configured
from agent57.config import Config
from agent57.ops.squash import squash
from agent57.presets import difference, flatten, make_config
from tests.house.names import ROOT
from tests.small import networks_of

# Row of the hyperparameter table, its value, the field that holds it.
TABLE: list[tuple[str, Any, str]] = [
    ("Number of mixtures N", 32, "family.arms"),
    ("Learning rate (R2D2)", 0.0001, "learner.learning_rate"),
    ("Learning rate (RND and Action prediction)", 0.0005, "learner.novelty_learning_rate"),
    ("Adam epsilon", 0.0001, "learner.adam_epsilon"),
    ("Adam beta1", 0.9, "learner.adam_beta1"),
    ("Adam beta2", 0.999, "learner.adam_beta2"),
    ("Adam clip norm", 40, "learner.clip_norm"),
    ("Batch size", 64, "learner.batch_size"),
    ("Trace length", 160, "sequence.trace_length"),
    ("Replay period", 80, "sequence.replay_period"),
    ("Retrace lambda", 0.95, "learner.trace_decay"),
    ("R2D2 reward transformation: 0.001 x", 0.001, "learner.squash_epsilon"),
    ("Episodic memory capacity", 30_000, "curiosity.memory_size"),
    ("Intrinsic reward scale beta", 0.3, "family.max_beta"),
    ("Kernel epsilon", 0.0001, "curiosity.kernel_epsilon"),
    ("Kernel num. neighbors used", 10, "curiosity.neighbours"),
    ("Replay capacity", 5e6, "replay.capacity"),
    ("Replay priority exponent", 0.9, "replay.priority_exponent"),
    ("Importance sampling exponent", 0.0, "replay.importance_exponent"),
    ("Minimum sequences to start replay", 6250, "replay.min_windows"),
    ("Actor update period", 100, "actor.pull_period"),
    ("Target Q-network update period", 1500, "learner.target_period"),
    ("Action prediction network L2 weight", 0.00001, "learner.inverse_l2"),
    ("RND clipping factor L", 5, "curiosity.max_modulation"),
    ("Evaluation epsilon", 0.01, "evaluator.epsilon"),
    ("Target epsilon", 0.01, "learner.target_epsilon"),
    ("Bandit UCB beta", 1, "controller.bonus"),
    ("Bandit epsilon", 0.5, "controller.epsilon"),
]
# Values from the paper's text, from another table, or from the papers that it builds on.
TEXT: list[tuple[str, Any, str]] = [
    ("section 4: tau = 160", 160, "controller.window"),
    ("section 4: the evaluator's tau", 3600, "evaluator_controller.window"),
    ("section 4: the evaluator's epsilon", 0.01, "evaluator_controller.epsilon"),
    ("UCB beta of the evaluator", 1, "evaluator_controller.bonus"),
    ("gamma_0", 0.9999, "family.max_gamma"),
    ("gamma_1", 0.997, "family.middle_gamma"),
    ("gamma_2", 0.99, "family.min_gamma"),
    ("number of actors L", 256, "actor.lanes"),
    ("epsilon of epsilon_l", 0.4, "actor.epsilon"),
    ("alpha of epsilon_l", 8, "actor.epsilon_alpha"),
    ("the evaluator alternates every 5 episodes", 5, "evaluator.phase_episodes"),
    ("eta of the priorities (R2D2)", 0.9, "replay.priority_mix"),
    ("NGU: last 5 steps train f and RND", 5, "learner.novelty_steps"),
    ("NGU table 6: cluster distance", 0.008, "curiosity.cluster_distance"),
    ("NGU table 6: pseudo-counts constant", 0.001, "curiosity.pseudo_count"),
    ("NGU table 6: maximum similarity", 8, "curiosity.max_similarity"),
    ("NGU: controllable states", 32, "network.embedding_size"),
    ("pre-processing: 30 minutes at 60 Hz", 30 * 60 * 60, "env.max_episode_frames"),
    ("pre-processing: action repeats", 4, "env.frame_skip"),
    ("pre-processing: no-ops", 30, "env.noop_max"),
    ("pre-processing: sticky actions", 0.0, "env.sticky_actions"),
    ("pre-processing: full action set", "full", "env.actions"),
    ("standard preprocessing: 84 x 84", 84, "env.frame_size"),
    ("loss: transformed Retrace", "retrace", "learner.loss"),
    ("section 3.1: the simple mixture", "identity", "learner.mixture"),
    ("separate networks", "separate", "network.values"),
    ("samples per insert (spec 35)", 1.54, "replay.samples_per_insert"),
    ("no burn-in (spec 18)", 0, "sequence.burn_in"),
    ("previous rewards enter raw (spec 39)", "raw", "network.reward_input"),
    ("all RND errors are compared (spec 25)", 0, "curiosity.error_horizon"),
    ("initial weights of the library (spec 44)", "pytorch", "network.initial_weights"),
    ("open forget gates (spec 44)", 1.0, "network.forget_bias"),
    ("what is seen counts once in the core (spec 44)", 1.0, "network.view_gain"),
    ("the heads' hidden units are ReLUs (spec 44)", 0.0, "network.head_slope"),
]


@pytest.mark.parametrize(("row", "value", "field"), TABLE + TEXT)
def test_the_defaults_are_the_papers(row: str, value: object, field: str) -> None:
    assert flatten(Config())[field] == value, row


# "Discount r^i 0.99, r^e 0.997" is left over from NGU (spec 9): ops/test_td.py.
# "Embeddings target update period: once/episode" is behaviour: test_player.py.
# "Embeddings memory mode: ring buffer" is behaviour: curiosity/test_episodic.py.


def test_the_bandit_window_of_the_table_is_an_option() -> None:
    # "Bandit window size 90" contradicts the text and the range searched: spec 6.
    option = "--controller.window 90"
    assert f"`{option}`" in (ROOT / "docs" / "FIDELITY.md").read_text()
    config, _ = configured(["--scale", "paper", *option.split()])
    assert difference(config, make_config("agent57", "paper")) == {"controller.window": (90, 160)}


def test_the_reward_transformation_is_the_printed_one() -> None:
    x = torch.linspace(-50, 50, 101, dtype=torch.float64)
    expected = x.sign() * ((x.abs() + 1).sqrt() - 1) + 0.001 * x
    torch.testing.assert_close(squash(x, Config().learner.squash_epsilon), expected)


def count(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_the_sizes_of_the_networks() -> None:
    # For 18 actions and one 84 x 84 frame; layer sizes of spec 44.
    networks = networks_of(Config().network, "pixels", (1, 84, 84), 255, 18, Config().family.arms)
    extrinsic, intrinsic = networks.value.nets
    assert count(extrinsic) == count(intrinsic) == 4_420_787
    assert count(extrinsic.trunk) == 71_840
    assert count(extrinsic.dense) == 1_606_144
    assert extrinsic.core.input_size == 512 + 18 + 2 + 32
    assert count(extrinsic.core) == 2_207_744
    assert count(extrinsic.advantage) + count(extrinsic.value) == 535_059
    embedding, rnd = networks.embedding, networks.rnd
    assert embedding is not None
    assert rnd is not None
    assert count(embedding.trunk) + count(embedding.project) == 172_224
    assert count(embedding.inverse) == 10_642
    assert count(rnd.predictor) == count(rnd.target) == 473_376
