"""Every hyperparameter, as frozen dataclasses. The defaults are the paper's Agent57.

Sources are named beside the fields: `table` is the paper's hyperparameter table, `NGU` and `R2D2`
are the papers it builds on. `spec N` is point N of docs/FIDELITY.md, which explains how a gap in
the paper was filled. Properties here depend on the fields alone.
"""

import dataclasses
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin

CONFIG_VERSION = 12
# Version: fields that a file of this version or an older version may lack. The file's run was
# trained with today's defaults of these fields, except that forget gates began at 0 for a while.
LATER_FIELDS: dict[int, tuple[str, ...]] = {
    11: ("learner.watkins_unit",),
    10: ("actor.anneal_steps",),
    9: ("family.own",),
    8: (
        "env.raw",
        "env.kwargs",
        "env.wrapper",
        "env.observe",
        "controller.own",
        "evaluator_controller.own",
        "curiosity.own_reward",
        "network.own_torso",
        "cluster.answer_seconds",
    ),
    7: (
        "env.step_seconds",
        "run.kind",
        "curiosity.reward_horizon",
        "network.normalise",
        "network.vector_input",
        "network.arm_input",
        "network.average_rate",
        "network.skip",
        "controller.sweep",
        "evaluator_controller.sweep",
        "network.torso",
        "learner.watkins_tolerance",
        "learner.value_loss",
        "learner.trust_region",
        "learner.cross_mixture",
        "learner.td_scale_batch",
        "learner.policy",
        "learner.policy_epsilon",
        "learner.policy_kl",
        "learner.policy_temperature",
        "learner.weight_decay",
        "cluster.publish_seconds",
    ),
    6: (),
    5: ("network.head_slope",),
    4: ("network.view_gain",),
    3: ("env.actions",),
    2: ("curiosity.error_horizon", "network.initial_weights", "network.forget_bias"),
    1: ("cluster", "run.runtime", "learner.td_scale"),
}
# Values that apply to runs from before these fields existed, where today's default differs.
FORMER_VALUES: dict[str, Any] = {"env.raw": True, "env.observe": ("image",)}
# Fields that were renamed: (last version with the old name, section, old name): new name.
RENAMED_FIELDS = {
    (6, "curiosity", "memory"): "memory_size",
    (6, "learner", "batch"): "batch_size",
    (6, "network", "embedding"): "embedding_size",
    (6, "network", "features"): "feature_size",
    (6, "network", "head"): "head_size",
    (6, "network", "inverse_head"): "inverse_head_size",
    (6, "network", "rnd"): "rnd_size",
    (6, "network", "state"): "state_size",
    (6, "sequence", "period"): "replay_period",
    (6, "sequence", "trace"): "trace_length",
}


Kind = Literal["pixels", "grid", "vector"]  # of observation
MAX_COUNT = 10**15  # limit of every whole number: three years at ten million frames per second


class ConfigError(ValueError):
    """A setting that cannot work: one line that names the field and the fix."""


def require(condition: bool, message: str) -> None:
    """Raise `ConfigError` with `message` unless `condition` holds."""
    if not condition:
        raise ConfigError(message)


def require_positive(section: object, group: str, *names: str) -> None:
    """Check that the named fields of a section are positive and finite."""
    for name in names:
        value = getattr(section, name)
        require(0 < value < math.inf, f"{group}.{name} must be positive, got {value}")


def require_unit(section: object, group: str, *names: str) -> None:
    """Check that the named fields of a section lie in [0, 1]."""
    for name in names:
        value = getattr(section, name)
        require(0 <= value <= 1, f"{group}.{name} must lie in [0, 1], got {value}")


@dataclass(frozen=True, kw_only=True)
class EnvConfig:
    """The task, and the paper's Atari preprocessing table."""

    name: str = "pong"  # a paper game name, random_coin, or a Gymnasium id
    raw: bool = False  # play ids such as ALE/Pong-v5 unchanged, without the paper's preprocessing
    kwargs: str = ""  # Gymnasium ids: arguments of the environment, as a JSON object
    wrapper: str = ""  # Gymnasium ids: module:function that wraps the environment
    observe: tuple[str, ...] = ()  # Gymnasium ids: the parts of a Dict or Tuple to see; (): all
    frame_skip: int = 4  # emulator frames per agent step
    frame_size: int = 84  # pixels per side; the paper says "standard preprocessing"
    noop_max: int = 30  # emulator frames of no-op at the start of an episode
    max_episode_frames: int = 108_000  # 30 minutes at 60 Hz; a truncation, not a termination
    sticky_actions: float = 0.0  # probability that the emulator repeats the last action
    actions: Literal["full", "minimal"] = "full"  # all of the console, or those the game uses
    # Gymnasium ids: play all lanes in this process, or each lane in a process of its own
    parallel: Literal["sync", "async"] = "sync"
    step_seconds: float = 600.0  # time limit of a step or reset of lanes in their own processes

    def __post_init__(self) -> None:
        require_positive(
            self, "env", "frame_skip", "frame_size", "max_episode_frames", "step_seconds"
        )
        require(self.noop_max >= 0, f"env.noop_max must not be negative, got {self.noop_max}")
        require_unit(self, "env", "sticky_actions")
        require(
            isinstance(self.keywords, dict),
            f"env.kwargs must be a JSON object, got {self.kwargs!r}",
        )
        require(
            not self.wrapper or bool(re.fullmatch(r"[\w.]+:\w+", self.wrapper)),
            f"env.wrapper must be module:function, got {self.wrapper!r}",
        )

    @property
    def keywords(self) -> Any:  # noqa: ANN401
        """Arguments of the environment; None if `kwargs` is not valid JSON."""
        try:
            return json.loads(self.kwargs or "{}")
        except ValueError:
            return None


@dataclass(frozen=True, kw_only=True)
class FamilyConfig:
    """The policies an agent can play: one (beta_j, gamma_j) per arm j."""

    arms: int = 32  # N, table
    max_beta: float = 0.3  # beta of the last arm, table; arm 0 has beta 0
    discounts: Literal["agent57", "ngu"] = "agent57"  # the curve gamma_j follows
    max_gamma: float = 0.9999  # the paper's gamma_0: discount of arm 0
    middle_gamma: float = 0.997  # the paper's gamma_1; unused by the ngu curve
    min_gamma: float = 0.99  # the paper's gamma_2: discount of the last arm
    betas: tuple[float, ...] = ()  # replaces the curve when given, one per arm
    gammas: tuple[float, ...] = ()  # replaces the curve when given, one per arm
    own: str = ""  # a registered family: sets arms, betas and gammas when a run begins

    def __post_init__(self) -> None:
        require_positive(self, "family", "arms")
        require(
            0 <= self.max_beta < math.inf,
            f"family.max_beta must not be negative or infinite, got {self.max_beta}",
        )
        for name in ("max_gamma", "middle_gamma", "min_gamma"):
            gamma = getattr(self, name)
            require(0 < gamma < 1, f"family.{name} must lie in (0, 1), got {gamma}")
        require(
            self.min_gamma <= self.max_gamma,
            f"family.min_gamma must not exceed family.max_gamma, "
            f"got {self.min_gamma} > {self.max_gamma}",
        )
        for name in ("betas", "gammas"):
            given = getattr(self, name)
            require(
                len(given) in (0, self.arms) or bool(self.own),
                f"family.{name} must hold one value per arm ({self.arms}), got {len(given)}",
            )
        uses_middle = self.discounts == "agent57" and self.arms > 2 and not self.gammas
        require(
            not uses_middle or self.min_gamma <= self.middle_gamma <= self.max_gamma,
            f"family.middle_gamma must lie between family.min_gamma ({self.min_gamma}) and "
            f"family.max_gamma ({self.max_gamma}), got {self.middle_gamma}",
        )
        require(
            all(0 <= b < math.inf for b in self.betas),
            f"family.betas must not be negative or infinite, got {self.betas}",
        )
        require(not self.betas or self.betas[0] == 0, "family.betas must start with 0 (arm 0)")
        require(
            all(0 < g < 1 for g in self.gammas),
            f"family.gammas must lie in (0, 1), got {self.gammas}",
        )

    @property
    def is_curious(self) -> bool:
        """Whether any arm values the intrinsic reward; otherwise it is not computed at all."""
        return max(self.betas, default=self.max_beta if self.arms > 1 else 0.0) > 0


@dataclass(frozen=True, kw_only=True)
class ControllerConfig:
    """How the arm of the next episode is chosen."""

    kind: Literal["ucb", "uniform", "fixed", "exploit"] = "ucb"  # fixed: lane l plays arm l mod N
    window: int = 160  # episodes, tau; paper: 160 in section 4, 90 in the table
    bonus: float = 1.0  # the paper's UCB beta, table
    # First arm of the initial sweep through all arms: arm 0 in every lane, or arm l mod N in lane l
    sweep: Literal["aligned", "staggered"] = "aligned"
    epsilon: float = 0.5  # probability of a random arm, table
    own: str = ""  # name of a registered controller that replaces `kind`

    def check(self, group: str) -> None:
        """Refuse settings that cannot work; `group` names the section in error messages."""
        require_positive(self, group, "window")
        require_unit(self, group, "epsilon")
        require(self.bonus >= 0, f"{group}.bonus must not be negative, got {self.bonus}")


@dataclass(frozen=True, kw_only=True)
class CuriosityConfig:
    """NGU's intrinsic reward: episodic novelty (algorithm 1) times the life-long modulator."""

    neighbours: int = 10  # k, table
    kernel_epsilon: float = 1e-4  # table
    cluster_distance: float = 8e-3  # xi, NGU table 6
    pseudo_count: float = 1e-3  # c, NGU table 6
    max_similarity: float = 8.0  # s_m, NGU table 6
    memory_size: int = 30_000  # embeddings kept per episode, table
    max_modulation: float = 5.0  # L, table
    warmup_steps: int = 1000  # agent steps of a lane before its alpha may differ from 1; spec 25
    error_horizon: int = 0  # number of last steps with which an RND error is compared; 0: all
    reward_horizon: int = 0  # number of last steps whose mean r^i divides r^i; 0: raw r^i
    own_reward: str = ""  # name of a registered intrinsic reward that replaces NGU's

    def __post_init__(self) -> None:
        require_positive(
            self, "curiosity", "neighbours", "kernel_epsilon", "pseudo_count", "memory_size",
            "max_similarity",
        )  # fmt: skip
        require(
            0 <= self.cluster_distance < math.inf,
            f"curiosity.cluster_distance must not be negative or infinite, "
            f"got {self.cluster_distance}",
        )
        require(
            self.warmup_steps >= 0,
            f"curiosity.warmup_steps must not be negative, got {self.warmup_steps}",
        )
        require(
            self.memory_size >= self.neighbours,
            f"curiosity.memory_size must be at least curiosity.neighbours ({self.neighbours}), "
            f"got {self.memory_size}",
        )
        require(
            self.max_modulation >= 1,
            f"curiosity.max_modulation must be at least 1, got {self.max_modulation}",
        )
        require(
            self.error_horizon == 0 or self.error_horizon > max(1, self.warmup_steps),
            f"curiosity.error_horizon must be 0, or at least 2 and more than "
            f"curiosity.warmup_steps ({self.warmup_steps}), got {self.error_horizon}",
        )
        require(
            self.reward_horizon >= 0,
            f"curiosity.reward_horizon must not be negative, got {self.reward_horizon}",
        )


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Sizes and initial weights of the networks (spec 44: the paper's figures are missing)."""

    # separate: Q^e and Q^i in two networks. shared: two heads over one torso and core (MEME).
    # joint: one Q of r^e + beta_j r^i.
    values: Literal["separate", "shared", "joint"] = "separate"
    arm_input: Literal["core", "head"] = "core"  # where the arm enters; head: as in MEME
    torso: Literal["dqn", "residual"] = "dqn"  # residual: 3x3 layers without normalisation, MEME
    core: Literal["lstm", "none"] = "lstm"
    channels: tuple[int, ...] = (32, 64, 64)  # of the pixel torso; DQN: 8x8/4, 4x4/2, 3x3/1
    grid_channels: tuple[int, ...] = (16, 32)  # of the 3x3 layers for small grids, NGU table 7
    feature_size: int = 512  # width of the layer between torso and core
    state_size: int = 512  # units of the LSTM
    head_size: int = 512  # hidden units of the advantage and of the value head
    embedding_size: int = 32  # controllable-state embedding f(x), NGU
    inverse_head_size: int = 128  # hidden units of the inverse-dynamics classifier, NGU
    rnd_size: int = 128  # outputs of the random and of the trained RND network, NGU
    reward_input: Literal["raw", "squash"] = "raw"  # how the previous rewards enter the network
    average_rate: float = 0.0  # step of the moving average of weights that is evaluated; 0: none
    skip: bool = False  # the heads also see the inputs of the core
    vector_input: Literal["raw", "standard"] = "raw"  # standard: normalised by running moments
    normalise: Literal["none", "layer"] = "none"  # layer norm in the value networks, PQN and BTR
    initial_weights: Literal["pytorch", "scaled"] = "pytorch"  # of the value networks; spec 44
    forget_bias: float = 1.0  # a new LSTM keeps sigmoid(forget_bias) of its memory; spec 44
    view_gain: float = 1.0  # factor of the core's initial weights for visual features; spec 44
    head_slope: float = 0.0  # slope of the heads' hidden units below 0, which keeps units alive
    own_torso: str = ""  # name of a registered torso that replaces the built-in torso

    def __post_init__(self) -> None:
        require_positive(
            self, "network", "feature_size", "state_size", "head_size", "embedding_size",
            "inverse_head_size", "rnd_size", "view_gain",
        )  # fmt: skip
        require_unit(self, "network", "head_slope", "average_rate")
        for name in ("channels", "grid_channels"):
            sizes = getattr(self, name)
            require(
                all(size > 0 for size in sizes),
                f"network.{name} must be positive sizes, got {sizes}",
            )
        require(
            math.isfinite(self.forget_bias),
            f"network.forget_bias must be finite, got {self.forget_bias}",
        )
        require(
            self.normalise == "none" or self.initial_weights == "pytorch",
            "network.normalise layer sets orthogonal weights itself: leave "
            "network.initial_weights at pytorch",
        )
        require(len(self.channels) == 3, f"network.channels must be three, got {self.channels}")


@dataclass(frozen=True, kw_only=True)
class SequenceConfig:
    """Lengths of the windows that experience is cut into, in agent steps."""

    trace_length: int = 160  # H: steps trained per window, table
    replay_period: int = 80  # steps between the starts of adjacent windows, table; spec 19
    burn_in: int = 0  # untrained first steps that warm up the recurrent state; spec 18; R2D2: 40

    def __post_init__(self) -> None:
        require_positive(self, "sequence", "trace_length", "replay_period")
        require(self.burn_in >= 0, f"sequence.burn_in must not be negative, got {self.burn_in}")
        require(
            self.replay_period
            <= self.trace_length,  # otherwise steps between two windows are never trained on
            f"sequence.replay_period must be at most sequence.trace_length ({self.trace_length}), "
            f"got {self.replay_period}",
        )
        require(
            self.window_length % self.replay_period == 0,
            f"sequence.trace_length + sequence.burn_in must be a multiple of "
            f"sequence.replay_period ({self.replay_period}), got {self.window_length}",
        )

    @property
    def window_length(self) -> int:
        """Steps per window, T. A window has one more observation, to bootstrap from."""
        return self.burn_in + self.trace_length

    @property
    def blocks_per_window(self) -> int:
        """Blocks of `replay_period` steps that make up a window."""
        return self.window_length // self.replay_period


@dataclass(frozen=True, kw_only=True)
class ReplayConfig:
    """Prioritised sequence replay."""

    capacity: int = 5_000_000  # transitions, table
    min_windows: int = 6250  # windows inserted before learning starts, table
    priority_exponent: float = 0.9  # table
    priority_mix: float = 0.9  # eta: weight of max |delta|, the mean has the rest; R2D2, spec 12
    importance_exponent: float = 0.0  # table
    samples_per_insert: float = 1.54  # how often a window is sampled on average; spec 35
    compression: int = 1  # zstd level of stored images
    threads: int = 2  # that decompress a batch; inline runs also use them to compress blocks

    def __post_init__(self) -> None:
        require_positive(self, "replay", "capacity", "min_windows", "samples_per_insert", "threads")
        require_unit(self, "replay", "priority_exponent", "priority_mix", "importance_exponent")
        require(
            1 <= self.compression <= 22,
            f"replay.compression must be a zstd level from 1 to 22, got {self.compression}",
        )


@dataclass(frozen=True, kw_only=True)
class LearnerConfig:
    """Settings of one update of the value networks, of inverse dynamics and of RND."""

    # Returns: Retrace (the paper), Peng's Q(lambda), which never cuts traces, soft Watkins
    # Q(lambda) (MEME), or n-step double Q-learning (R2D2).
    loss: Literal["retrace", "peng", "soft_watkins", "n_step"] = "retrace"
    watkins_tolerance: float = 0.01  # kappa of soft Watkins Q(lambda), MEME
    # What kappa is a share of: the size of the value (MEME), or of the arm's TD errors.
    watkins_unit: Literal["value", "error"] = "value"
    # each: one loss for Q^e and one for Q^i. combined: one loss for their mixture (MEME).
    value_loss: Literal["each", "combined"] = "each"
    # alpha of MEME's trust region, with bootstrapping from the online network.
    # 0: no trust region, bootstrap from the target network.
    trust_region: float = 0.0
    # eta: weight of the played arm in the loss; all arms share the rest (MEME). If
    # network.arm_input is head, one unroll serves all arms. Otherwise each window draws one arm.
    cross_mixture: float = 1.0
    mixture: Literal["identity", "h"] = "identity"  # how Q^e and beta_j Q^i are added
    transform: Literal["h", "identity"] = "h"  # applied to the values that are learned
    squash_epsilon: float = 1e-3  # epsilon of h, table
    trace_decay: float = 0.95  # lambda of the returns, table
    target_epsilon: float = 0.01  # epsilon of the epsilon-greedy target policy, table
    n_step: int = 5  # steps of the n-step double-Q loss, R2D2
    batch_size: int = 64  # windows per update, table
    learning_rate: float = 1e-4  # of the value networks, table
    novelty_learning_rate: float = 5e-4  # of inverse dynamics and RND, table
    adam_epsilon: float = 1e-4  # table
    adam_beta1: float = 0.9  # table
    adam_beta2: float = 0.999  # table
    clip_norm: float = 40.0  # largest norm of each network's gradient, table; spec 22
    # Divide TD errors by their size per arm (MEME): in priorities only, or in the loss too.
    td_scale: Literal["none", "priority", "both"] = "none"
    # The policy that acts and that returns follow: epsilon-greedy in the values, or a policy head
    # that imitates this policy (MEME). The three fields below apply to the distilled policy only.
    policy: Literal["values", "distilled"] = "values"
    policy_epsilon: float = 1e-4  # epsilon of the policy that is distilled
    policy_kl: float = 0.5  # C_KL: leave out states where the policy has moved further
    policy_temperature: float = 0.25  # divides the logits when acting; below 1: greedier
    td_scale_batch: bool = False  # let the batch's own errors enlarge the scale, MEME
    weight_decay: float = 0.0  # decoupled (AdamW), of the value networks; MEME
    # How the loss is reduced over the steps of a window, spec 21. Over windows it is averaged.
    reduction: Literal["sum", "mean"] = "sum"
    target_period: int = 1500  # updates between copies to the target networks, table
    novelty_steps: int = 5  # last steps of each window, which train inverse dynamics and RND, NGU
    inverse_l2: float = 1e-5  # L2 weight of the action-prediction network, table
    compile: Literal["auto", "on", "off"] = "auto"  # torch.compile; auto: on GPUs with a compiler
    # Arithmetic of the value networks; auto: bfloat16 where the device multiplies it faster.
    precision: Literal["float32", "bfloat16", "auto"] = "float32"

    def __post_init__(self) -> None:
        require_positive(
            self, "learner", "squash_epsilon", "n_step", "batch_size", "learning_rate",
            "novelty_learning_rate", "adam_epsilon", "clip_norm", "target_period", "novelty_steps",
            "policy_kl", "policy_temperature",
        )  # fmt: skip
        require_unit(
            self, "learner", "trace_decay", "target_epsilon", "cross_mixture", "policy_epsilon"
        )
        for name in ("watkins_tolerance", "trust_region", "weight_decay"):
            value = getattr(self, name)
            require(
                0 <= value < math.inf,
                f"learner.{name} must not be negative or infinite, got {value}",
            )
        for name in ("adam_beta1", "adam_beta2"):
            value = getattr(self, name)
            require(0 <= value < 1, f"learner.{name} must lie in [0, 1), got {value}")
        require(
            self.mixture == "identity" or self.transform == "h",
            "learner.mixture h needs values that are learned under the transform h: "
            "set learner.transform to h, or learner.mixture to identity",
        )
        require(self.inverse_l2 >= 0, f"learner.inverse_l2 must not be negative: {self.inverse_l2}")


@dataclass(frozen=True, kw_only=True)
class ActorConfig:
    """The lanes that gather experience; each lane is one of the paper's L actors."""

    lanes: int = 256  # L, the paper's number of actors
    epsilon: float = 0.4  # exploration noise of lane 0
    epsilon_alpha: float = 8.0  # epsilon_l = epsilon^(1 + alpha l / (L - 1))
    # Agent steps of all lanes together during which epsilon falls from 1 to epsilon_l; 0: none.
    anneal_steps: int = 0
    pull_period: int = 100  # agent steps between copies of the learner's weights, table
    # Limit of embedding networks that an actor holds; each episode keeps the embedding it began
    # with. 0: one for every 8 lanes, at least 4. Fewer means older embeddings for new episodes;
    # more means smaller batches for each embedding.
    embedding_versions: int = 0

    def __post_init__(self) -> None:
        require_positive(self, "actor", "lanes", "pull_period")
        require_unit(self, "actor", "epsilon")
        for name in ("anneal_steps", "embedding_versions", "epsilon_alpha"):
            value = getattr(self, name)
            require(value >= 0, f"actor.{name} must not be negative, got {value}")


@dataclass(frozen=True, kw_only=True)
class EvaluatorConfig:
    """The separate player that reports scores and never writes to replay."""

    lanes: int = 1
    epsilon: float = 0.01  # table
    phase_episodes: int = 5  # episodes that train the bandit, then as many that evaluate

    def __post_init__(self) -> None:
        require_positive(self, "evaluator", "lanes", "phase_episodes")
        require_unit(self, "evaluator", "epsilon")


@dataclass(frozen=True, kw_only=True)
class ClusterConfig:
    """The processes of a run when `run.runtime` is cluster."""

    actors: int = 16  # processes that play; the L lanes are spread over them evenly
    actor_cpus: float = 1.0  # cores that Ray reserves for each actor
    actor_gpus: float = 0.0  # share of a GPU for each actor; 0: actors use the CPU
    actor_threads: int = 1  # threads per actor, for torch and for compressing blocks
    shards: int = 1  # processes that hold the replay
    learners: int = 1  # GPUs or processes that share the windows of each batch
    publish_seconds: float = 0.0  # minimum time between two versions of the weights for actors
    ray_address: str = ""  # host:port of a running Ray; "": the Ray of this machine, or a new one
    dashboard: bool = False  # start Ray's dashboard on loopback, if this run starts Ray
    answer_seconds: float = 600.0  # time limit of a call; a slower process is replaced

    def __post_init__(self) -> None:
        require_positive(
            self, "cluster", "actors", "actor_cpus", "actor_threads", "shards", "learners",
            "answer_seconds",
        )  # fmt: skip
        require_unit(self, "cluster", "actor_gpus")
        require(
            0 <= self.publish_seconds < math.inf,
            f"cluster.publish_seconds must not be negative or infinite, got {self.publish_seconds}",
        )
        require(
            self.shards <= self.actors,
            f"cluster.shards must not exceed cluster.actors ({self.actors}): each actor fills one "
            f"shard, got {self.shards}",
        )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Agent, length, device and records of a run."""

    agent: str = "agent57"  # the preset this configuration started from
    scale: str = "paper"
    kind: Kind = "pixels"  # the kind of observation whose defaults were used
    runtime: Literal["inline", "cluster"] = "inline"  # one process, or many on Ray
    seed: int = 0
    frames: int = 78_000_000_000  # length of training: emulator frames on Atari, else agent steps
    device: str = "auto"  # auto: the GPU if there is one
    threads: int = 0  # of torch; 0: OMP_NUM_THREADS, or all cores that the process may use
    log_frames: int = 20_000  # frames between two lines of metrics.jsonl
    checkpoint_seconds: float = 600.0
    checkpoints_kept: int = 2

    def __post_init__(self) -> None:
        require_positive(
            self, "run", "frames", "log_frames", "checkpoint_seconds", "checkpoints_kept"
        )
        for name in ("seed", "threads"):
            value = getattr(self, name)
            require(value >= 0, f"run.{name} must not be negative, got {value}")


@dataclass(frozen=True, kw_only=True)
class Config:
    """One experiment. The defaults are the paper's Agent57."""

    env: EnvConfig = field(default_factory=EnvConfig)
    family: FamilyConfig = field(default_factory=FamilyConfig)
    controller: ControllerConfig = field(default_factory=ControllerConfig)
    evaluator_controller: ControllerConfig = field(
        default_factory=lambda: ControllerConfig(window=3600, epsilon=0.01)
    )
    curiosity: CuriosityConfig = field(default_factory=CuriosityConfig)
    network: NetworkConfig = field(default_factory=NetworkConfig)
    sequence: SequenceConfig = field(default_factory=SequenceConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    actor: ActorConfig = field(default_factory=ActorConfig)
    evaluator: EvaluatorConfig = field(default_factory=EvaluatorConfig)
    cluster: ClusterConfig = field(default_factory=ClusterConfig)
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        self.controller.check("controller")
        self.evaluator_controller.check("evaluator_controller")
        require(
            self.learner.mixture == "identity" or self.network.values != "joint",
            "learner.mixture h mixes two values, but a joint network has only one: "
            "set network.values to separate, or learner.mixture to identity",
        )
        require(
            self.learner.value_loss == "each" or self.network.values != "joint",
            "learner.value_loss combined mixes two values, but a joint network has only one: "
            "set network.values to shared, or learner.value_loss to each",
        )
        require(
            self.replay.capacity >= 2 * self.sequence.window_length,
            f"replay.capacity must hold two windows ({2 * self.sequence.window_length} "
            f"transitions), got {self.replay.capacity}",
        )
        require(
            self.replay.min_windows * self.sequence.replay_period <= self.replay.capacity,
            f"replay.min_windows of {self.sequence.replay_period} steps must fit in "
            f"replay.capacity ({self.replay.capacity} transitions), got {self.replay.min_windows}",
        )
        self._check_counts()
        if self.run.runtime == "cluster":
            self._check_cluster()

    def _check_counts(self) -> None:
        """Refuse whole numbers that no array can hold. A seed may be any number."""
        for group in dataclasses.fields(self):
            section = getattr(self, group.name)
            for name, value in vars(section).items():
                require(
                    not isinstance(value, int) or value < MAX_COUNT or name == "seed",
                    f"{group.name}.{name} must be below 10^15",
                )

    def _check_cluster(self) -> None:
        """Refuse a cluster whose parts cannot share evenly or could not be restarted."""
        require(
            self.actor.lanes % self.cluster.actors == 0,
            f"actor.lanes must be a multiple of cluster.actors ({self.cluster.actors}), "
            f"got {self.actor.lanes}: set --lanes-per-actor",
        )
        require(
            self.learner.batch_size % self.cluster.learners == 0,
            f"learner.batch_size must be a multiple of cluster.learners ({self.cluster.learners}), "
            f"got {self.learner.batch_size}",
        )
        controllers = (self.controller.own, self.evaluator_controller.own)
        own = (*controllers, self.curiosity.own_reward, self.network.own_torso)
        require(
            not any(own),
            f"registered parts ({', '.join(filter(None, own))}) exist only in the process that "
            f"registered them: set run.runtime to inline",
        )
        shard_capacity = self.replay.capacity // self.cluster.shards
        require(
            shard_capacity >= 2 * self.sequence.window_length,
            f"replay.capacity must hold two windows ({2 * self.sequence.window_length} "
            f"transitions) in each of the {self.cluster.shards} shards, got {self.replay.capacity}",
        )
        require(
            self.run.checkpoints_kept >= 2,
            f"run.checkpoints_kept must be at least 2 on a cluster, where one checkpoint is read "
            f"while the next is written, got {self.run.checkpoints_kept}",
        )

    @property
    def learned_kind(self) -> Literal["separate", "joint"]:
        """Whether Q^e and Q^i have a loss each, or one value of the mixed reward is learned."""
        is_each = self.learner.value_loss == "each" and self.network.values != "joint"
        return "separate" if is_each else "joint"

    @property
    def value_names(self) -> tuple[str, ...]:
        """The names of the V values."""
        return ("joint",) if self.network.values == "joint" else ("extrinsic", "intrinsic")

    @property
    def learned_names(self) -> tuple[str, ...]:
        """The names of the L values that have a loss: all V values, or their mixture."""
        return ("combined",) if self.learner.value_loss == "combined" else self.value_names

    @property
    def lanes_per_actor(self) -> int:
        """Lanes that each process of a cluster plays."""
        return self.actor.lanes // self.cluster.actors


def to_dict(config: Config) -> dict[str, Any]:
    """Return the configuration as plain containers, with its version."""
    return {"version": CONFIG_VERSION, **dataclasses.asdict(config)}


def from_dict(values: dict[str, Any]) -> Config:
    """Return the configuration that `to_dict` wrote; refuse an unknown field or version."""
    version: Any = values.get("version")
    require(
        isinstance(version, int) and version in (*LATER_FIELDS, CONFIG_VERSION),
        f"config version {version} cannot be read, this agent57 writes version {CONFIG_VERSION}: "
        f"install the agent57 that wrote it",
    )
    optional = tuple(
        name for later, names in LATER_FIELDS.items() if later >= version for name in names
    )
    sections = {k: _renamed(version, k, v) for k, v in values.items() if k != "version"}
    return _build(Config, sections, "", optional)


def _renamed(version: int, section: str, fields: Any) -> Any:  # noqa: ANN401
    """Return the fields of a section under their present names."""
    if not isinstance(fields, dict):
        return fields
    new = {
        old: name
        for (last, of, old), name in RENAMED_FIELDS.items()
        if of == section and version <= last
    }
    return {new.get(name, name): value for name, value in fields.items()}


def _build(
    kind: Any,  # noqa: ANN401
    values: dict[str, Any],
    path: str,
    optional: tuple[str, ...],
) -> Any:  # noqa: ANN401
    fields = {f.name: f for f in dataclasses.fields(kind)}
    unknown = sorted(set(values) - set(fields))
    require(not unknown, f"unknown config field {path}{unknown[0] if unknown else ''}")
    missing = sorted(n for n in fields if n not in values and path + n not in optional)
    require(not missing, f"config field {path}{missing[0] if missing else ''} is missing")
    former = {n: FORMER_VALUES[path + n] for n in fields if path + n in FORMER_VALUES}
    built: dict[str, Any] = {n: value for n, value in former.items() if n not in values}
    for name, value in values.items():
        default = fields[name].default_factory
        if default is not dataclasses.MISSING:
            require(isinstance(value, dict), f"config field {path}{name} must be a group of fields")
            built[name] = _build(type(default()), value, f"{path}{name}.", optional)
        else:
            built[name] = tuple(value) if isinstance(value, list) else value
            check_type(fields[name].type, built[name], f"config field {path}{name}")
    return kind(**built)


def check_type(kind: Any, value: Any, name: str) -> None:  # noqa: ANN401
    """Refuse a value whose type is not the field's: files from outside may hold anything."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        is_choice = isinstance(value, str) and value in choices
        require(is_choice, f"{name} must be one of {', '.join(map(str, choices))}, got {value!r}")
    elif get_origin(kind) is tuple:
        require(isinstance(value, tuple), f"{name} must be a list, got {value!r}")
        inner, *more = get_args(kind)
        inners = [inner] * len(value) if more == [...] else [inner, *more]
        require(len(value) == len(inners), f"{name} must hold {len(inners)} values, got {value!r}")
        for each, item in zip(inners, value, strict=True):
            check_type(each, item, name)
    else:
        words = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
        allowed = (int, float) if kind is float else kind
        is_kind = isinstance(value, allowed) and (kind is bool or not isinstance(value, bool))
        require(is_kind, f"{name} must be {words[kind]}, got {value!r}")
