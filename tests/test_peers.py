"""Every defect found in other implementations (peers.md, section 2) and the tests that catch it.

The index is checked against the names of the tests. Defects that fit no other test file are tested
here, each by a test that would fail if this project had the same defect.
"""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

from agent57.actor import Actor
from agent57.config import Config
from agent57.replay.buffer import Replay
from agent57.runtime.parts import build
from tests.house.names import modules, test_names
from tests.small import CPU, layout_of, make_learner, random_batch, small_config, walk

TD, RETRACE, POLICY = "ops/test_td.py", "ops/test_retrace.py", "ops/test_policy.py"
FAMILY, TABLE = "ops/test_family.py", "paper/test_family_table.py"
NOVELTY = "curiosity/test_novelty.py"
PRIORITY, SQUASH = "ops/test_priority.py", "ops/test_squash.py"
BANDIT, EPISODIC = "test_bandit.py", "curiosity/test_episodic.py"
LIFELONG, REWARD = "curiosity/test_lifelong.py", "curiosity/test_reward.py"
VALUE, RND, EMBEDDING = "nets/test_value.py", "nets/test_rnd.py", "nets/test_embedding.py"
PLAYER, ACTOR, LEARNER = "test_player.py", "test_actor.py", "test_learner.py"
EVALUATOR, HYPER = "test_evaluator.py", "paper/test_hyperparameters.py"
ASSEMBLER, BUFFER, WINDOW = (
    "replay/test_assembler.py", "replay/test_buffer.py", "replay/test_window.py",
)  # fmt: skip
STORE, ATARI, GYM = "replay/test_store.py", "envs/test_atari.py", "envs/test_gymnasium.py"
RESUME, HERE = "runtime/test_resume.py", "test_peers.py"

INDEX: dict[str, list[tuple[str, str]]] = {
    # 2.1 deep_rl_zoo
    "both networks learn r^e + beta r^i": [
        (TD, "test_regression_mixed_reward_in_both_losses"),
        (LEARNER, "test_each_network_learns_its_own_reward_by_law"),
    ],
    "target policy is a softmax of the target network, per head": [
        (TD, "test_regression_target_policy_that_is_soft_or_separate_or_of_the_target_network"),
        (POLICY, "test_regression_softmax_target_policy"),
    ],
    "the bandit's window never slides": [(BANDIT, "test_regression_window_that_never_slides")],
    "arm 0 is credited with a return of 0 before the first episode": [
        (BANDIT, "test_regression_arm_zero_recorded_before_the_first_episode"),
        (ACTOR, "test_regression_nothing_is_recorded_before_an_episode_ends"),
    ],
    "tail sequences repeat steps they already hold": [
        (ASSEMBLER, "test_blocks_and_traces_by_definition"),
        (WINDOW, "test_windows_by_definition"),
    ],
    "short episodes never reach the replay": [
        (HERE, "test_short_episodes_are_replayed_whole"),
        (ACTOR, "test_every_step_of_every_finished_episode_is_in_a_block"),
    ],
    "running variance merges with the wrong weight": [
        (LIFELONG, "test_regression_first_values_are_not_the_raw_second_moment"),
        (LIFELONG, "test_moments_of_each_lane_are_those_of_everything_it_saw_by_definition"),
    ],
    "RND without 1 + and without the mean": [
        (LIFELONG, "test_regression_error_over_deviation_without_the_mean"),
        (LIFELONG, "test_modulation_by_hand"),
    ],
    "RND predicts under another normalisation than it was trained with": [
        (HERE, "test_the_error_an_actor_sees_is_the_one_the_learner_trains_on"),
    ],
    "epsilon_l with the exponents of Ape-X": [
        (FAMILY, "test_regression_lane_epsilons_with_the_exponents_of_ape_x"),
    ],
    "gamma_max 0.997, importance exponent 0.6, memory of 3000": [
        (HYPER, "test_the_defaults_are_the_papers"),
        (PRIORITY, "test_regression_importance_exponent_of_the_paper_is_zero"),
    ],
    "minimal action set": [(ATARI, "test_every_game_starts_and_plays")],
    "a time limit is taken for a termination": [
        (RETRACE, "test_truncation_bootstraps_and_termination_does_not"),
        (ATARI, "test_the_cap_truncates_with_the_true_last_observation"),
        (GYM, "test_a_time_limit_truncates_with_the_true_last_observation"),
        (PLAYER, "test_truncated_lanes_come_with_the_values_of_their_last_state"),
    ],
    "the evaluator always plays arm 0": [
        (EVALUATOR, "test_training_sweeps_the_arms_and_evaluation_plays_the_best"),
    ],
    "anomaly detection is left on": [(HERE, "test_no_debugging_aid_is_left_on")],
    "weights are copied to the actors after every update": [
        (ACTOR, "test_weights_are_pulled_every_pull_period_steps"),
    ],
    "recurrent states are stored for every step": [
        (STORE, "test_only_blocks_that_can_start_a_window_keep_their_state"),
        (ASSEMBLER, "test_states_are_sent_where_a_window_can_start"),
    ],
    "neighbours in a Python loop over a copied memory": [
        (EPISODIC, "test_regression_a_python_loop_over_the_memory"),
        (EPISODIC, "test_regression_a_memory_copied_for_every_query"),
    ],
    "priorities are summed anew for every sample": [
        (BUFFER, "test_regression_priorities_summed_anew_for_every_sample"),
    ],
    # 2.2 YHL04/agent57
    "embedding and RND are never trained": [
        (LEARNER, "test_regression_networks_that_are_never_trained"),
        (LEARNER, "test_inverse_dynamics_and_rnd_improve"),
    ],
    "mu is rounded to the integer 0": [
        (POLICY, "test_regression_integer_behaviour_probabilities"),
        (PLAYER, "test_recorded_probabilities_are_those_of_the_mixture_by_hand"),
    ],
    "the trace is indexed with the previous action": [
        (RETRACE, "test_regression_trace_indexed_with_the_previous_action"),
    ],
    "the network sees neither arm nor previous action and rewards": [
        (VALUE, "test_every_input_of_the_paper_changes_both_values"),
    ],
    "one coin makes all lanes act at random": [
        (POLICY, "test_regression_one_coin_for_all_lanes"),
        (ACTOR, "test_each_lane_acts_with_its_own_epsilon"),
    ],
    "similarities are summed over all lanes": [
        (NOVELTY, "test_regression_similarity_summed_over_all_lanes"),
        (EPISODIC, "test_regression_lanes_share_nothing"),
    ],
    "a number of arms is passed as a learning rate": [
        (LEARNER, "test_an_update_by_definition"),
    ],
    "terminated is discarded, life loss resets the game": [
        (ATARI, "test_a_game_over_terminates_and_the_next_episode_takes_its_first_action"),
        (ATARI, "test_the_observation_at_game_over_is_older_than_the_end"),
        (GYM, "test_an_episode_that_ends_both_ways_is_terminated"),
    ],
    "windows cross episodes": [
        (BUFFER, "test_random_play_by_definition"),
        (HERE, "test_windows_stay_within_their_episode"),
    ],
    "the priority exponent is not applied to sampling": [
        (BUFFER, "test_frequencies_follow_priorities"),
    ],
    "clip 0.1, rollouts of 10, as many arms as actors": [
        (HYPER, "test_the_defaults_are_the_papers"),
    ],
    # 2.3 yuta0821/agent57_pytorch
    "the RND error does not depend on the predictor": [
        (RND, "test_regression_error_that_ignores_the_predictor"),
    ],
    "the bandit learns the reward of each step": [
        (ACTOR, "test_bandits_learn_the_undiscounted_extrinsic_returns"),
    ],
    "the classifier is not in the optimiser, softmax before cross-entropy": [
        (LEARNER, "test_regression_networks_that_are_never_trained"),
        (EMBEDDING, "test_regression_logits_are_not_probabilities"),
    ],
    "no checkpoint is ever written": [
        (RESUME, "test_a_toy_run_is_the_same_however_often_it_is_stopped"),
    ],
    "cuda.is_available without a call": [(HERE, "test_no_function_is_used_as_a_truth_value")],
    "extrinsic and intrinsic rewards are swapped": [
        (TD, "test_regression_extrinsic_and_intrinsic_swapped"),
        (PLAYER, "test_recorded_values_and_states_are_those_of_an_unrolled_network"),
        (PLAYER, "test_rows_follow_each_other"),
    ],
    "credit leaks over the end of an episode": [
        (RETRACE, "test_regression_trace_not_cut_at_the_end_of_an_episode"),
    ],
    "evaluation arms are drawn at random": [
        (EVALUATOR, "test_regression_evaluation_arms_are_not_drawn_at_random"),
    ],
    "target copied every 10 updates, weights every 100 rollouts": [
        (LEARNER, "test_the_target_is_copied_every_target_period"),
        (ACTOR, "test_weights_are_pulled_every_pull_period_steps"),
        (HYPER, "test_the_defaults_are_the_papers"),
    ],
    "short episodes crash": [(HERE, "test_short_episodes_are_replayed_whole")],
    "acting builds a graph": [(PLAYER, "test_acting_builds_no_graph")],
    "gradients flow into the targets": [(TD, "test_regression_gradient_through_the_targets")],
    # 2.4 simple_distributed_rl
    "Retrace sums in the space of h, with cumulative products": [
        (TD, "test_regression_returns_summed_in_squashed_space"),
        (RETRACE, "test_retrace_by_definition"),
        (RETRACE, "test_retrace_equals_rlax"),
    ],
    "inverse dynamics of the action that led into the first state": [
        (LEARNER, "test_regression_inverse_dynamics_of_the_action_that_led_into_the_first_state"),
    ],
    "sequences are added many times over": [
        (BUFFER, "test_no_window_is_stored_twice_or_left_out"),
    ],
    "a greedy policy per head": [
        (TD, "test_regression_target_policy_that_is_soft_or_separate_or_of_the_target_network"),
    ],
    "UCB with a logarithm and prior counts": [
        (BANDIT, "test_regression_logarithm_and_prior_counts_in_the_bonus"),
    ],
    "the evaluator's window and epsilon for the actors": [
        (HYPER, "test_the_defaults_are_the_papers"),
    ],
    "kernel on distances, mean of the query alone, no clusters": [
        (EPISODIC, "test_regression_mean_of_the_query_alone"),
        (NOVELTY, "test_regression_neighbours_of_one_cluster_told_apart"),
        (NOVELTY, "test_one_neighbour_at_the_running_mean_by_hand"),
    ],
    "the settings called the paper's are not": [(HYPER, "test_the_defaults_are_the_papers")],
    "signed errors cancel in the priority": [
        (PRIORITY, "test_regression_signed_errors_cancel"),
    ],
    "no gradient clipping": [(LEARNER, "test_an_update_by_definition")],
    # 2.5 AnotherAgent57, DRLearner, Deepest-Project
    "sampling takes the highest priorities, eviction the lowest": [
        (BUFFER, "test_frequencies_follow_priorities"),
        (STORE, "test_blocks_leave_in_the_order_they_came"),
    ],
    "one bandit for all, fed by the evaluator": [
        (ACTOR, "test_each_lane_sweeps_the_arms_with_a_bandit_of_its_own"),
        (EVALUATOR, "test_evaluation_episodes_do_not_teach_the_bandit"),
    ],
    "RND divides by the variance": [(LIFELONG, "test_modulation_by_hand")],
    "the learner has other betas and gammas than the actors": [
        (LEARNER, "test_regression_discount_and_mixture_are_of_the_arm_that_played"),
        (FAMILY, "test_regression_exploiting_arm_with_the_short_horizon"),
    ],
    "novelty networks train on the first frames": [
        (LEARNER, "test_only_the_last_five_valid_steps_train_the_novelty_networks_by_law"),
        (LEARNER, "test_every_one_of_the_last_five_steps_does"),
    ],
    "an arm that left the window is never tried again": [
        (BANDIT, "test_regression_unseen_arm_scored_by_a_finite_or_the_lowest_bonus"),
    ],
    "rewards are clipped": [(ATARI, "test_rewards_are_not_clipped")],
    "the misprinted inverse of h": [(SQUASH, "test_regression_inverse_without_the_square")],
    "the misprinted discounts": [(TABLE, "test_regression_gammas_as_printed")],
    # 2.6 frameworks
    "previous actions are shifted along the batch": [
        (VALUE, "test_regression_state_shifted_along_the_wrong_axis"),
        (WINDOW, "test_windows_by_definition"),
        (PLAYER, "test_rows_follow_each_other"),
    ],
    "novelty is computed inside replayed sequences": [
        (HERE, "test_intrinsic_rewards_are_replayed_as_they_were_earned"),
    ],
    "nothing is earned before ten states are known": [
        (EPISODIC, "test_regression_nothing_earned_until_k_states_are_known"),
    ],
    "gradient flows through the burn-in": [
        (LEARNER, "test_regression_gradient_through_the_burn_in"),
    ],
    "padding enters loss and priorities": [
        (LEARNER, "test_padding_changes_nothing_by_law"),
        (PRIORITY, "test_regression_padding_counts_in_the_priority"),
        (RETRACE, "test_regression_unmasked_padding"),
    ],
    "the replay needs a hundred gigabytes": [
        (ASSEMBLER, "test_how_an_episode_is_cut_by_hand"),
        ("replay/test_block.py", "test_num_bytes_is_the_memory_taken"),
    ],
    "all actors share one epsilon": [(ACTOR, "test_each_lane_acts_with_its_own_epsilon")],
}


@pytest.mark.parametrize("defect", INDEX)
def test_every_known_defect_has_its_test(defect: str) -> None:
    assert INDEX[defect]
    for file, name in INDEX[defect]:
        assert name in test_names().get(Path("tests") / file, set()), f"{file}::{name}"


def played_replay(config: Config, max_steps: int, num_steps: int) -> tuple[Replay, int]:
    """Return a replay filled by an actor's lanes, and how many steps they played."""
    env = walk(3, max_steps)
    layout = layout_of(config, env)
    actor = Actor(config, env, layout, make_learner(config).weights, CPU)
    replay = Replay(config.replay, config.sequence, layout, np.random.default_rng(0))
    for _ in range(num_steps):
        for block in actor.step()[0]:
            replay.add(block)
    return replay, actor.num_transitions


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 7])
def test_short_episodes_are_replayed_whole(length: int) -> None:
    # deep_rl_zoo drops episodes shorter than a window, yuta0821 crashes; windows here have 8 rows.
    config = small_config()
    replay, num_played = played_replay(config, length, 4 * length)
    assert replay.num_transitions == num_played
    batch = replay.sample(64)
    assert (batch.mask.sum(0) == length).all()
    assert torch.isfinite(make_learner(config).update(batch).priorities).all()


def test_windows_stay_within_their_episode() -> None:
    # An episode of 11 steps: no window may hold the first row of the next one.
    config = small_config()
    replay, _ = played_replay(config, 11, 60)
    batch = replay.sample(128)
    length = batch.mask.sum(0)
    assert ((batch.start + length) <= 11).all()
    assert set(batch.start.tolist()) == {0, 4}
    is_start = batch.start == 0
    assert not batch.state[:, :, is_start].any()
    assert batch.state[:, :, ~is_start].any()


def test_intrinsic_rewards_are_replayed_as_they_were_earned() -> None:
    # DI-engine recomputes novelty within a replayed sequence; here the stored one comes back.
    config = small_config()
    env = walk(1, 6)
    layout = layout_of(config, env)
    actor = Actor(config, env, layout, make_learner(config).weights, CPU)
    replay = Replay(config.replay, config.sequence, layout, np.random.default_rng(0))
    earned = []
    for _ in range(6):
        blocks, _, diagnostics = actor.step()
        earned.append(diagnostics["reward/intrinsic"])
        for block in blocks:
            replay.add(block)
    batch = replay.sample(1)
    np.testing.assert_allclose(batch.intrinsic[:6, 0].numpy(), earned, rtol=1e-6)
    assert np.unique(np.round(earned, 4)).size > 3


def test_the_error_an_actor_sees_is_the_one_the_learner_trains_on() -> None:
    # deep_rl_zoo trains RND on one normalisation of pixels and queries it under another. Here the
    # steps that train RND are a whole episode, so its loss is the mean of what the actor saw.
    config = small_config(
        env={"name": "pong", "frame_size": 36, "max_episode_frames": 20},
        network={"channels": (2, 2, 2)},
        actor={"lanes": 1},
    )
    num_steps = config.learner.novelty_steps
    assert num_steps * config.env.frame_skip == config.env.max_episode_frames
    parts = build(config, CPU)
    for _ in range(num_steps):
        for block in parts.actor.step()[0]:
            parts.replay.add(block)
    curiosity = parts.actor.player.curiosity
    assert curiosity is not None
    assert curiosity.modulator.moments.count == num_steps
    loss = parts.learner.update(parts.replay.sample(2)).metrics["loss/rnd"]
    assert loss == pytest.approx(curiosity.modulator.moments.mean[0], rel=1e-5)


def test_no_debugging_aid_is_left_on() -> None:
    make_learner(small_config()).update(random_batch(small_config()))
    assert not torch.is_anomaly_enabled()
    for path, tree in modules().items():
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        assert not names & {"set_detect_anomaly", "detect_anomaly", "set_trace"}, path


def test_no_function_is_used_as_a_truth_value() -> None:
    # `if torch.cuda.is_available:` is always true. Every use of such a function must call it.
    for path, tree in modules().items():
        asked = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
        for node in ast.walk(tree):
            is_question = isinstance(node, ast.Attribute) and node.attr in (
                "is_available", "is_file", "is_dir", "exists", "any", "all",
            )  # fmt: skip
            assert not is_question or id(node) in asked, f"{path}:{node.lineno}"
