"""Advice for each symptom of a run: the texts behind the marks of health.

The live page and the report include these texts, so that a mark can link to its advice without a
network. docs/DIAGNOSE.md holds the output of `as_markdown`, which a test checks. Words in backticks
are metrics and settings.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Advice:
    """A symptom, the metrics that show it, their healthy range, and what to change."""

    symptom: str
    look_at: str
    healthy: str
    otherwise: str

    @property
    def title(self) -> str:
        """The symptom as a heading."""
        return self.symptom[0].upper() + self.symptom[1:]

    @property
    def anchor(self) -> str:
        """The symptom's anchor in an address, as Markdown derives it from the heading."""
        return re.sub(r"[^\w\s-]", "", self.symptom.lower()).replace(" ", "-")


ARITHMETIC = "(follows from arithmetic)"
RUNS = "(separates the two runs below)"
GUESS = "(a guess)"

ADVICE: Sequence[Advice] = (
    Advice(
        symptom="no arm ever earns anything",
        look_at="`arm_return/j` and `reward/extrinsic`.",
        healthy=f"One arm earns more than the rest within the first tenth of the run {GUESS}.",
        otherwise="The agent does not find the reward: read the symptoms of novelty below. If some "
        "arms find the reward but do not keep it, look at `action_gap/j`.",
    ),
    Advice(
        symptom="exploratory arms stand still",
        look_at="`curiosity/familiar`, the share of steps that arrive at a known state.",
        healthy=f"Well below 1, and falling while the exploratory arms learn {RUNS}.",
        otherwise="At 1 every state counts as known. Look at `curiosity/distance_sq` and "
        "`inverse_dynamics/accuracy`. A smaller `curiosity.cluster_distance` tells apart states "
        "that are close to each other.",
    ),
    Advice(
        symptom="novelty means nothing",
        look_at="`inverse_dynamics/accuracy` and `curiosity/distance_sq`.",
        healthy="The accuracy is above the share of the most frequent action. It need not come "
        f"near 1, because some actions have no effect {ARITHMETIC}. The distance is positive and "
        f"settles {RUNS}.",
        otherwise="The embedding does not see what the agent controls; a distance near 0 means "
        "that it has collapsed. Raise `network.embedding_size` or "
        "`learner.novelty_learning_rate`, or make more updates.",
    ),
    Advice(
        symptom="going in circles pays",
        look_at="`curiosity/memory_fill`, the share of the episodic memory that is in use.",
        healthy=f"Below 1 {ARITHMETIC}.",
        otherwise="A full memory forgets its oldest states, which then look new again. Raise "
        "`curiosity.memory_size`; each entry takes 4 bytes x `network.embedding_size` x lanes.",
    ),
    Advice(
        symptom="life-long novelty is off",
        look_at="`curiosity/modulation_at_1`, the share of steps whose life-long factor is 1.",
        healthy="Below 1 while the agent finds new places, and 1 once nothing is new "
        f"{ARITHMETIC}.",
        otherwise="This is no fault by itself: the intrinsic reward is then the episodic novelty "
        "alone. If it is 1 from the start, lower `curiosity.warmup_steps`. If it is 1 although "
        "the agent finds new places, there are two causes. The mean may still hold the large "
        "errors of the untrained predictor: set `curiosity.error_horizon` to a little more than "
        "`curiosity.warmup_steps`. Or RND learns too fast to be surprised: lower "
        "`learner.novelty_learning_rate`.",
    ),
    Advice(
        symptom="life-long novelty is at its limit",
        look_at="`curiosity/modulation_at_max`, the share of steps at the largest factor.",
        healthy=f"Below 0.05 {GUESS}.",
        otherwise="A few states have enormous RND errors. Look at the observations themselves.",
    ),
    Advice(
        symptom="intrinsic drowns extrinsic",
        look_at="`reward/intrinsic` times beta of an arm, against `reward/extrinsic`.",
        healthy=f"r^i lies between 1 and 100 {RUNS}. A state seen ten times has 0.3, a state at "
        f"the usual distance has 31 {ARITHMETIC}.",
        otherwise="Exploratory arms are meant to prefer novelty. A joint network learns the sum of "
        "both rewards, so it suffers: lower `family.max_beta`, or use separate networks.",
    ),
    Advice(
        symptom="some arms are not learned from",
        look_at="`batch_share/j` against the arm's share of `arm_plays/j`.",
        healthy=f"Within a factor of 3 while the arm's returns still rise {RUNS}; less once its "
        "errors are gone.",
        otherwise="Priorities are |delta^e + beta_j delta^i|, so arms with a large beta crowd out "
        "the others. Set `learner.td_scale` to priority, or lower `replay.priority_exponent`.",
    ),
    Advice(
        symptom="values are learned, behaviour is not",
        look_at="`action_gap/0` divided by `td/extrinsic/0`: the lead of the best action over "
        "the error of its value.",
        healthy=f"Above 1 {RUNS}.",
        otherwise="The best action leads by less than the error of its value, so greedy actions "
        "are noise. Make more updates (`replay.samples_per_insert`), use a larger "
        "`learner.batch_size`, or lower `family.max_gamma`, which widens the leads.",
    ),
    Advice(
        symptom="greedy actions flip",
        look_at="`churn/values`, the share of greedy actions that one update changes.",
        healthy=(
            "0.1 to 0.2 in the first updates, then 0.01 to 0.1 (five runs: Pong, Breakout, "
            "MultiRoom-N4-S5, and DoorKey-8x8 with two settings)."
        ),
        otherwise=(
            "The policy changes so fast that traces over recent actions are cut and evaluations "
            "jump. Lower `learner.learning_rate`, raise `learner.batch_size`, or let evaluations "
            "play an average of the networks (`network.average_rate` 0.003). With "
            "`learner.policy` distilled, as in MEME, look at `churn/policy` as well: the policy "
            "that acts should change less than the values (a guess)."
        ),
    ),
    Advice(
        symptom="rewards are met and stay a surprise",
        look_at="`loss/extrinsic` together with `action_gap/0`.",
        healthy=f"The lead grows as rewards come {GUESS}.",
        otherwise="If neither changes, Q^e may be the same everywhere. After a long time without "
        "a reward, all hidden units of its heads may lie below 0, where nothing is learned: set "
        "`network.head_slope` to 0.01. Key corridor had this fault (docs/results/TUNING.md).",
    ),
    Advice(
        symptom="one arm's errors dwarf the others'",
        look_at="`td/extrinsic/j` and `td/intrinsic/j` over the arms.",
        healthy=f"The same order of magnitude for all arms {RUNS}.",
        otherwise="Set `learner.td_scale`. With a joint network, use separate networks instead.",
    ),
    Advice(
        symptom="gradients are cut all the time",
        look_at="`clipped/*`, the share of updates whose gradient was cut, and `gradient_norm/*`.",
        healthy=f"Below a third after the first hundred updates {RUNS}.",
        otherwise="At 1 the size of an error has no effect. The loss is a sum over time, so "
        "long traces have large gradients. Raise `learner.clip_norm`, or set `learner.reduction` "
        "to mean with a higher learning rate.",
    ),
    Advice(
        symptom="values run away",
        look_at="`value/*` and `loss/*`.",
        healthy="Values level off. They cannot exceed h(largest reward / (1 - gamma)) "
        f"{ARITHMETIC}.",
        otherwise="Lower the learning rate, lengthen `learner.target_period`, or lower "
        "`family.max_gamma`.",
    ),
    Advice(
        symptom="values are too good",
        look_at="`value/extrinsic` against h(`reward/extrinsic` / (1 - gamma)), with a gamma from "
        "the middle of the family.",
        healthy=f"The value moves towards it while rewards stay what they are {ARITHMETIC}.",
        otherwise="Values near 0 or above while rewards are negative are too good. The largest of "
        "several noisy values is too large, and a target that is renewed every few updates has "
        "the same noise, so double Q-learning corrects nothing. Lengthen `learner.target_period` "
        "(in Pong from 50 to 300, docs/results/TUNING.md), use fewer actions, or set "
        "`network.initial_weights` to scaled.",
    ),
    Advice(
        symptom="learning is slow though errors are large",
        look_at="`target_difference/*` against `td/*` of the same network.",
        healthy=f"Late in the run, smaller than the TD error {RUNS}.",
        otherwise="If it is larger, values move faster than the target network, and most of the "
        "error is the age of the target: shorten `learner.target_period`. If it is near 0 and "
        "errors are large, the learning rate is too low.",
    ),
    Advice(
        symptom="learning from few windows",
        look_at="`replay/effective_windows` divided by `replay/windows`.",
        healthy=f"Above 0.3 {RUNS}; 1 means that all windows are drawn equally often {ARITHMETIC}.",
        otherwise="Below 0.1 the same windows come again and again. Lower "
        "`replay.priority_exponent`.",
    ),
    Advice(
        symptom="priorities are out of date",
        look_at="`priority/drawn` against `priority/mean`.",
        healthy=f"Equal within a third {RUNS}.",
        otherwise="If drawn is far above mean, priorities fall sharply when windows are learned "
        "from. Their first priorities are too high, or they are drawn too rarely: raise "
        "`replay.samples_per_insert`.",
    ),
    Advice(
        symptom="learning from the past",
        look_at="`replay/age` divided by `replay/transitions`.",
        healthy=f"0.3 to 0.6; drawing all windows equally often gives 0.5 {ARITHMETIC}.",
        otherwise="Above 0.6, old windows keep high priorities and their values are not learned: "
        "lower `replay.capacity`. Below 0.1, the replay is larger than the part in use.",
    ),
    Advice(
        symptom="actors play with old weights",
        look_at="`actor/weights_age`, in updates.",
        healthy=f"Small compared with `learner.target_period` {ARITHMETIC}.",
        otherwise="Lower `actor.pull_period`, or make fewer updates per step.",
    ),
    Advice(
        symptom="memory grows",
        look_at="`memory/resident_bytes` minus `replay/bytes`.",
        healthy=f"Level once the replay is full {ARITHMETIC}.",
        otherwise="docs/PERFORMANCE.md says what takes memory.",
    ),
)

BY_SYMPTOM = {advice.symptom: advice for advice in ADVICE}


def as_markdown() -> str:
    """Return the advice as Markdown for docs/DIAGNOSE.md, with a heading per symptom."""
    parts = [
        f"### {advice.title}\n\n- Look at: {advice.look_at}\n- Healthy: {advice.healthy}\n"
        f"- Otherwise: {advice.otherwise}\n"
        for advice in ADVICE
    ]
    return "\n".join(parts)
