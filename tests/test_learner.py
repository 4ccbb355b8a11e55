"""One update: first the whole update by definition, then the paper's properties by law."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from agent57.config import Config
from agent57.learner import Learner, NonFiniteUpdate
from agent57.nets.networks import make_networks
from agent57.ops.family import betas, gammas
from agent57.ops.td import RATE, td_errors, td_scale
from agent57.presets import PRESETS, make_config
from agent57.types import Batch, EnvSpec
from tests.small import (
    CPU,
    SPEC,
    changed,
    make_learner,
    random_batch,
    same_tree,
    small_config,
)

CONFIG = small_config()
LENGTHS = (8, 5, 1, 7)  # valid rows of the windows, where they differ


def weights_of(learner: Learner, *prefixes: str) -> dict[str, Tensor]:
    """Return a copy of the weights whose names begin with one of these prefixes."""
    state = learner.networks.state_dict()
    return {k: v.clone() for k, v in state.items() if k.startswith(prefixes or ("",))}


EXTRINSIC, INTRINSIC = "value.nets.0.", "value.nets.1."
NOVELTY = ("embedding.", "rnd.")


def unroll(nets: nn.Module, batch: Batch, state: Tensor, rows: slice) -> tuple[Tensor, Tensor]:
    return nets(
        batch.observation[rows],
        batch.previous_action[rows],
        batch.previous_extrinsic[rows],
        batch.previous_intrinsic[rows],
        batch.arm,
        state,
    )


def td_of(online: Tensor, target: Tensor, batch: Batch, config: Config) -> tuple[Tensor, Tensor]:
    """Return TD errors with the discounts of the played arms, and the betas of these arms."""
    beta = torch.from_numpy(betas(config.family)).float()[batch.arm]
    gamma = torch.from_numpy(gammas(config.family)).float()[batch.arm]
    rates = {"beta": beta, "gamma": gamma, "scale": torch.ones(len(online), config.family.arms)}
    return td_errors(online, target, batch, **rates, loss=config.learner, values="separate"), beta


def adam_step(module: nn.Module, loss: Tensor, config: Config, name: str) -> None:
    """Make Adam's first step on the clipped gradient, written out."""
    learner = config.learner
    parameters = list(module.parameters())
    gradients = torch.autograd.grad(loss, parameters, retain_graph=True)
    norm = torch.sqrt(sum((g**2).sum() for g in gradients))
    scale = min(1.0, learner.clip_norm / (float(norm) + 1e-6))
    is_novelty = name in ("inverse_dynamics", "rnd")
    rate = learner.novelty_learning_rate if is_novelty else learner.learning_rate
    for parameter, gradient in zip(parameters, gradients, strict=True):
        g = gradient * scale
        if name == "inverse_dynamics":
            g = g + learner.inverse_l2 * parameter.detach()
        # After one step the corrected moments are g and g^2.
        parameter.data -= rate * g / (g.abs() + learner.adam_epsilon)


@pytest.mark.parametrize("clip_norm", [40.0, 0.01])
def test_an_update_by_definition(clip_norm: float) -> None:
    config = changed(CONFIG, learner={"clip_norm": clip_norm, "inverse_l2": 0.1})
    learner = make_learner(config)
    batch = random_batch(config, LENGTHS)
    expected = copy.deepcopy(learner.networks)
    update = learner.update(batch)

    online, _ = unroll(expected.value, batch, batch.state, slice(None))
    td, beta = td_of(online, online.detach(), batch, config)
    extrinsic, intrinsic = (0.5 * (td[v] ** 2 * batch.mask).sum(0).mean() for v in (0, 1))
    assert expected.embedding is not None
    assert expected.rnd is not None
    before, after, action = [], [], []
    for column, length in enumerate(LENGTHS):
        for row in range(max(0, length - 5), length):
            before.append(batch.observation[row, column])
            after.append(batch.observation[row + 1, column])
            action.append(batch.action[row, column])
    logits = expected.embedding.action_logits(
        expected.embedding(torch.stack(before)), expected.embedding(torch.stack(after))
    )
    inverse = F.cross_entropy(logits, torch.stack(action))
    rnd = expected.rnd(torch.stack(after)).mean()

    losses = {"extrinsic": extrinsic, "intrinsic": intrinsic, "inverse_dynamics": inverse}
    for name, loss in {**losses, "rnd": rnd}.items():
        assert update.metrics[f"loss/{name}"] == pytest.approx(loss.item(), rel=1e-5)
        assert (update.metrics[f"gradient_norm/{name}"] > clip_norm) == bool(
            update.metrics[f"clipped/{name}"]
        )
    size = (td[0] + beta * td[1]).detach().abs()
    priority = [0.9 * size[:n, b].max() + 0.1 * size[:n, b].mean() for b, n in enumerate(LENGTHS)]
    torch.testing.assert_close(update.priorities, torch.stack(priority))

    adam_step(expected.value.nets[0], extrinsic, config, "extrinsic")
    adam_step(expected.value.nets[1], intrinsic, config, "intrinsic")
    adam_step(expected.embedding, inverse, config, "inverse_dynamics")
    adam_step(expected.rnd.predictor, rnd, config, "rnd")
    for j in batch.arm.unique():
        errors = td[:, :, batch.arm == j][:, batch.mask[:, batch.arm == j]].detach()
        squares = learner.weights()[0]["td_squares"]
        torch.testing.assert_close(squares[:2, j], RATE * errors.square().mean(-1))
        assert squares[2, j] == pytest.approx(RATE)
    for name, weight in expected.state_dict().items():
        torch.testing.assert_close(
            learner.networks.state_dict()[name], weight, rtol=1e-4, atol=2e-6, msg=name
        )


@pytest.mark.parametrize(
    ("reward", "own", "other"),
    [("extrinsic", EXTRINSIC, INTRINSIC), ("intrinsic", INTRINSIC, EXTRINSIC)],
)
def test_each_network_learns_its_own_reward_by_law(reward: str, own: str, other: str) -> None:
    # Even a gradient that is clipped in one network leaves the other as it was.
    batch = random_batch(CONFIG, LENGTHS)
    richer = replace(batch, **{reward: getattr(batch, reward) + 1000 * batch.mask})
    learners = [make_learner(CONFIG) for _ in range(2)]
    updates = [learner.update(b) for learner, b in zip(learners, (batch, richer), strict=True)]
    names = {"extrinsic": "intrinsic", "intrinsic": "extrinsic"}
    unchanged = f"loss/{names[reward]}"
    assert updates[0].metrics[unchanged] == updates[1].metrics[unchanged]
    assert updates[0].metrics[f"loss/{reward}"] != updates[1].metrics[f"loss/{reward}"]
    assert updates[1].metrics[f"clipped/{reward}"] == 1
    assert same_tree(weights_of(learners[0], other), weights_of(learners[1], other))
    assert same_tree(weights_of(learners[0], *NOVELTY), weights_of(learners[1], *NOVELTY))
    assert not same_tree(weights_of(learners[0], own), weights_of(learners[1], own))


def test_a_joint_network_learns_the_sum_of_rewards_by_law() -> None:
    config = small_config("ngu")
    batch = random_batch(config)
    beta = torch.from_numpy(betas(config.family)).float()[batch.arm]
    moved = replace(
        batch, extrinsic=batch.extrinsic + 2 * beta, intrinsic=batch.intrinsic - 2
    )  # the same r^e + beta_j r^i
    metrics = [make_learner(config).update(b).metrics for b in (batch, moved)]
    assert metrics[0]["loss/joint"] == pytest.approx(metrics[1]["loss/joint"], rel=1e-5)


def test_padding_changes_nothing_by_law() -> None:
    batch = random_batch(CONFIG, LENGTHS)
    rubbish = random_batch(CONFIG, (8, 8, 8, 8), seed=1)
    beyond = torch.arange(9)[:, None] > torch.tensor(LENGTHS)  # the bootstrap row stays
    spoilt = replace(
        batch,
        observation=torch.where(beyond[..., None], rubbish.observation, batch.observation),
        **{
            name: torch.where(beyond, getattr(rubbish, name), getattr(batch, name))
            for name in ("previous_action", "previous_extrinsic", "previous_intrinsic")
        },
        **{
            name: torch.where(batch.mask, getattr(batch, name), getattr(rubbish, name))
            for name in ("action", "action_prob", "extrinsic", "intrinsic", "discount")
        },
    )
    learners = [make_learner(CONFIG) for _ in range(2)]
    updates = [learner.update(b) for learner, b in zip(learners, (batch, spoilt), strict=True)]
    torch.testing.assert_close(updates[0].priorities, updates[1].priorities)
    for name, value in updates[0].metrics.items():
        if not name.startswith("value/"):  # these metrics are means over all rows
            assert updates[1].metrics[name] == pytest.approx(value, rel=1e-5), name
    for name, weight in weights_of(learners[0]).items():
        torch.testing.assert_close(weight, weights_of(learners[1])[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("values", "names"), [("separate", {"extrinsic", "intrinsic"}), ("joint", {"joint"})]
)
def test_each_value_network_is_logged_by_its_name(values: str, names: set[str]) -> None:
    config = small_config(network={"values": values})
    metrics = make_learner(config).update(random_batch(config)).metrics
    for kind in ("value/", "loss/"):
        logged = {name.removeprefix(kind) for name in metrics if name.startswith(kind)}
        assert logged - {"inverse_dynamics", "rnd"} == names
    assert len({metrics[f"value/{name}"] for name in names}) == len(names)


def test_padding_equals_a_shorter_window_by_law() -> None:
    batch = random_batch(CONFIG, (5, 3, 1, 5))
    cut = {}
    for name in Batch.__dataclass_fields__:
        value = getattr(batch, name)
        is_row = name not in ("arm", "start", "state", "key", "probability")
        cut[name] = value[: len(value) - 3] if is_row else value
    updates = [make_learner(CONFIG).update(b) for b in (batch, Batch(**cut))]
    torch.testing.assert_close(updates[0].priorities, updates[1].priorities)
    for name in ("extrinsic", "intrinsic", "inverse_dynamics", "rnd"):
        losses = [update.metrics[f"loss/{name}"] for update in updates]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_loss_is_a_sum_over_time_or_a_mean_by_hand() -> None:
    # The same window four times: the mean over windows is the window's own.
    losses = {}
    for reduction in ("sum", "mean"):
        config = changed(CONFIG, learner={"reduction": reduction})
        losses[reduction] = make_learner(config).update(random_batch(config, (5,))).metrics
    ratio = losses["sum"]["loss/extrinsic"] / losses["mean"]["loss/extrinsic"]
    assert ratio == pytest.approx(5)


def test_importance_weights_scale_the_loss_of_their_window_only_if_asked() -> None:
    plain, corrected = CONFIG, changed(CONFIG, replay={"importance_exponent": 0.6})
    batch = random_batch(CONFIG)
    likely = replace(batch, probability=torch.tensor([0.1, 0.1, 0.1, 0.9], dtype=torch.float64))
    even = replace(batch, probability=torch.full((4,), 0.25, dtype=torch.float64))

    def loss(config: Config, b: Batch) -> float:
        return make_learner(config).update(b).metrics["loss/extrinsic"]

    assert loss(plain, likely) == loss(plain, even) == loss(corrected, even)
    assert loss(corrected, likely) < loss(corrected, even)


def change_rows(batch: Batch, rows: list[tuple[int, int]]) -> Batch:
    """Return the batch with other observations and actions at these (row, column) places."""
    observation, action = batch.observation.clone(), batch.action.clone()
    for row, column in rows:
        observation[row, column] += 1.0
        if row < len(action):
            action[row, column] = (action[row, column] + 1) % 3
    return replace(batch, observation=observation, action=action)


def test_only_the_last_five_valid_steps_train_the_novelty_networks_by_law() -> None:
    batch = random_batch(CONFIG, LENGTHS)
    # Steps length-5 ... length-1 and the observations around them; everything else may change.
    early = [(row, column) for column, n in enumerate(LENGTHS) for row in range(n - 5)]
    beyond = [(row, column) for column, n in enumerate(LENGTHS) for row in range(n + 1, 9)]
    learners = [make_learner(CONFIG) for _ in range(2)]
    learners[0].update(batch)
    learners[1].update(change_rows(batch, early + beyond))
    assert same_tree(weights_of(learners[0], *NOVELTY), weights_of(learners[1], *NOVELTY))
    assert not same_tree(weights_of(learners[0], EXTRINSIC), weights_of(learners[1], EXTRINSIC))


@pytest.mark.parametrize("place", [(3, 0), (7, 0), (8, 0), (4, 1), (5, 1), (1, 2), (7, 3)])
def test_every_one_of_the_last_five_steps_does(place: tuple[int, int]) -> None:
    batch = random_batch(CONFIG, LENGTHS)
    learners = [make_learner(CONFIG) for _ in range(2)]
    learners[0].update(batch)
    learners[1].update(change_rows(batch, [place]))
    embeddings = [weights_of(learner, "embedding.") for learner in learners]
    assert not same_tree(*embeddings)


def test_regression_inverse_dynamics_of_the_action_that_led_into_the_first_state() -> None:
    # srl trains on the previous action: here it must not matter at all.
    batch = random_batch(CONFIG)
    other = replace(batch, previous_action=(batch.previous_action + 1) % 3)
    learners = [make_learner(CONFIG) for _ in range(2)]
    for learner, each in zip(learners, (batch, other), strict=True):
        learner.update(each)
    assert same_tree(weights_of(learners[0], *NOVELTY), weights_of(learners[1], *NOVELTY))


def test_regression_networks_that_are_never_trained() -> None:
    # YHL04: no backward; yuta0821: the classifier is not in the optimiser. Every weight must move,
    # but for the frozen random network.
    learner = make_learner(CONFIG)
    before = weights_of(learner)
    for seed in range(3):
        learner.update(random_batch(CONFIG, seed=seed))
    for name, weight in weights_of(learner).items():
        assert torch.equal(weight, before[name]) == name.startswith("rnd.target."), name


def test_inverse_dynamics_and_rnd_improve() -> None:
    learner = make_learner(changed(CONFIG, learner={"novelty_learning_rate": 1e-2}))
    batch = random_batch(CONFIG)
    metrics = [learner.update(batch).metrics for _ in range(60)]
    for name in ("inverse_dynamics", "rnd"):
        assert metrics[-1][f"loss/{name}"] < 0.5 * metrics[0][f"loss/{name}"]


def test_the_target_is_copied_every_target_period() -> None:
    learner = make_learner(changed(CONFIG, learner={"target_period": 3}))

    def target_is_online() -> bool:
        return same_tree(
            dict(learner.state_dict()["target"]), dict(learner.networks.value.state_dict())
        )

    assert target_is_online()
    for update in range(1, 8):
        learner.update(random_batch(CONFIG, seed=update))
        assert target_is_online() == (update % 3 == 0)


def test_targets_come_from_the_target_network_and_priorities_from_online_errors() -> None:
    # The online network has changed and the target has not, so an update must use both.
    learner = make_learner(CONFIG)
    batch = random_batch(CONFIG)
    stale = copy.deepcopy(learner.networks.value)
    with torch.no_grad():
        for parameter in learner.networks.value.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    online, _ = unroll(learner.networks.value, batch, batch.state, slice(None))
    target, _ = unroll(stale, batch, batch.state, slice(None))
    td, beta = td_of(online.detach(), target.detach(), batch, CONFIG)
    size = (td[0] + beta * td[1]).abs()
    expected = 0.9 * size.amax(0) + 0.1 * size.mean(0)
    torch.testing.assert_close(learner.update(batch).priorities, expected)


def test_regression_discount_and_mixture_are_of_the_arm_that_played() -> None:
    # DRLearner trains arms with other discounts and betas than they act with.
    batch = random_batch(CONFIG)
    for arm in range(4):
        same_arm = replace(batch, arm=torch.full((4,), arm))
        fixed = changed(
            CONFIG,
            family={
                "betas": (0.0, *[float(betas(CONFIG.family)[arm])] * 3),
                "gammas": (float(gammas(CONFIG.family)[arm]),) * 4,
            },
        )
        updates = [make_learner(config).update(same_arm) for config in (CONFIG, fixed)]
        torch.testing.assert_close(updates[0].priorities, updates[1].priorities)


BURN_IN = small_config("r2d2")  # four rows of burn-in, four of trace


def test_burn_in_rows_enter_neither_loss_nor_priority_by_law() -> None:
    batch = random_batch(BURN_IN, starts=(4, 8, 4, 4))
    richer = replace(batch, extrinsic=batch.extrinsic.clone())
    richer.extrinsic[:4] += 10
    updates = [make_learner(BURN_IN).update(b) for b in (batch, richer)]
    assert updates[0].metrics["loss/joint"] == updates[1].metrics["loss/joint"]
    assert torch.equal(updates[0].priorities, updates[1].priorities)


def test_at_the_start_of_an_episode_there_is_nothing_to_burn_in() -> None:
    batch = random_batch(BURN_IN, starts=(0, 4, 4, 4))
    richer = replace(batch, extrinsic=batch.extrinsic.clone())
    richer.extrinsic[:4] += 10
    updates = [make_learner(BURN_IN).update(b) for b in (batch, richer)]
    changed_windows = updates[0].priorities != updates[1].priorities
    assert changed_windows.tolist() == [True, False, False, False]


def test_regression_gradient_through_the_burn_in() -> None:
    # Acme has this gradient. Here it must equal that of a trace whose first state is a constant.
    learner = make_learner(BURN_IN)
    batch = random_batch(BURN_IN)
    networks = copy.deepcopy(learner.networks)
    norms = {}
    for cut in (True, False):
        networks.zero_grad()
        first, state = unroll(networks.value, batch, batch.state, slice(0, 4))
        if cut:
            first, state = first.detach(), state.detach()
        second, _ = unroll(networks.value, batch, state, slice(4, None))
        online = torch.cat([first, second], dim=1)
        td = td_errors(
            online,
            online.detach(),
            batch,
            beta=torch.zeros(4),
            gamma=torch.from_numpy(gammas(BURN_IN.family)).float()[batch.arm],
            loss=BURN_IN.learner,
            values="joint",
            scale=torch.ones(1, BURN_IN.family.arms),
        )
        weight = (batch.probability**-0.6).float()
        loss = (0.5 * (td[0][4:] ** 2).sum(0) * weight / weight.max()).mean()
        loss.backward()
        gradients = [p.grad.square().sum() for p in networks.value.parameters()]
        norms[cut] = float(torch.stack(gradients).sum().sqrt())
    norm = learner.update(batch).metrics["gradient_norm/joint"]
    assert norm == pytest.approx(norms[True], rel=1e-4)
    assert norm != pytest.approx(norms[False], rel=1e-4)


@pytest.mark.parametrize("name", ["extrinsic", "intrinsic", "observation"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_update_that_is_not_finite_changes_nothing(name: str, value: float) -> None:
    learner = make_learner(CONFIG)
    learner.update(random_batch(CONFIG))
    before = copy.deepcopy(learner.state_dict())
    batch = random_batch(CONFIG, seed=1)
    getattr(batch, name)[6, 1] = value
    with pytest.raises(NonFiniteUpdate, match="is not finite") as caught:
        learner.update(batch)
    assert caught.value.batch is not None
    assert same_tree(before["networks"], learner.state_dict()["networks"])
    assert same_tree(before["optimisers"], learner.state_dict()["optimisers"])
    assert learner.num_updates == 1
    learner.update(random_batch(CONFIG, seed=2))  # the next update is made as usual


def test_the_part_that_is_not_finite_is_named() -> None:
    batch = random_batch(CONFIG)
    batch.intrinsic[6, 1] = float("nan")
    with pytest.raises(NonFiniteUpdate, match="loss/intrinsic"):
        make_learner(CONFIG).update(batch)


def test_continues_exactly_from_its_saved_state() -> None:
    config = changed(CONFIG, learner={"target_period": 3})
    learner, other = make_learner(config), make_learner(changed(config, run={"seed": 9}))
    for seed in range(4):
        learner.update(random_batch(config, seed=seed))
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    for seed in range(4, 8):
        updates = [each.update(random_batch(config, seed=seed)) for each in (learner, other)]
        assert updates[0].metrics == updates[1].metrics
        assert torch.equal(updates[0].priorities, updates[1].priorities)
    assert same_tree(learner.state_dict(), other.state_dict())


def test_published_weights_carry_the_number_of_updates() -> None:
    learner = make_learner(CONFIG)
    assert learner.weights()[1] == 0
    learner.update(random_batch(CONFIG))
    weights, version = learner.weights()
    assert version == 1
    squares = weights.pop("td_squares")
    assert squares[-1].any()
    assert same_tree(dict(weights), dict(learner.networks.state_dict()))


@pytest.mark.parametrize("agent", PRESETS)
def test_every_system_of_the_paper_makes_an_update(agent: str) -> None:
    config = make_config(agent, "tiny")
    learner, sequence = make_learner(config), config.sequence
    before = weights_of(learner, "value.")
    lengths = (
        sequence.window_length,
        sequence.burn_in + 1,
        sequence.window_length,
        sequence.window_length - 1,
    )
    starts = (0, sequence.replay_period, sequence.replay_period, 2 * sequence.replay_period)
    update = learner.update(random_batch(config, lengths, starts))
    assert update.priorities.shape == (4,)
    assert (update.priorities > 0).all()
    after = weights_of(learner, "value.")
    assert not [name for name in before if torch.equal(before[name], after[name])]
    losses = {name for name in update.metrics if name.startswith("loss/")}
    values = {
        "meme": {"loss/combined", "loss/policy"},
        "separate": {"loss/extrinsic", "loss/intrinsic"},
        "joint": {"loss/joint"},
    }["meme" if agent == "meme" else config.network.values]
    novelty = {"loss/inverse_dynamics", "loss/rnd"} if config.family.is_curious else set()
    assert losses == values | novelty


@pytest.mark.parametrize(("kind", "shape"), [("pixels", (1, 36, 36)), ("grid", (2, 5, 5))])
def test_pixels_and_grids_are_learned_from(kind: str, shape: tuple[int, ...]) -> None:
    spec = EnvSpec(
        name="pictures",
        kind=kind,  # type: ignore[arg-type]
        observation_shape=shape,
        observation_dtype="uint8",
        num_actions=3,
        frames_per_step=1,
        max_value=3,
    )
    learner = make_learner(CONFIG, spec)
    update = learner.update(random_batch(CONFIG, LENGTHS, spec=spec))
    assert update.metrics["loss/extrinsic"] > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"learner": {"transform": "identity"}},
        {"network": {"core": "none"}},
        {"network": {"reward_input": "squash"}},
        {"network": {"normalise": "layer"}},
        {"network": {"skip": True}},
        {"learner": {"loss": "n_step", "n_step": 3}},
    ],
)
def test_every_choice_makes_an_update_that_differs(changes: dict) -> None:
    config = changed(CONFIG, **changes)
    plain = make_learner(CONFIG).update(random_batch(CONFIG)).metrics
    metrics = make_learner(config).update(random_batch(config)).metrics
    assert metrics["loss/extrinsic"] != plain["loss/extrinsic"]
    assert metrics["loss/intrinsic"] > 0


def test_errors_are_scaled_where_it_is_asked_by_definition() -> None:
    """Priorities alone, or losses too, use scaled errors. Running squares are always kept."""
    batch = random_batch(CONFIG, LENGTHS)
    updates, known = {}, torch.linspace(0.5, 0.9, 3 * CONFIG.family.arms).view(3, -1)
    for kind in ("none", "priority", "both"):
        learner = make_learner(changed(CONFIG, learner={"td_scale": kind}))
        learner.load_state_dict({**learner.state_dict(), "td_squares": known})
        updates[kind] = learner.update(batch), learner.weights()[0]["td_squares"].clone()
    sizes = {kind: update.metrics for kind, (update, _) in updates.items()}
    assert sizes["none"]["loss/extrinsic"] == sizes["priority"]["loss/extrinsic"]
    assert sizes["none"]["loss/extrinsic"] != sizes["both"]["loss/extrinsic"]
    assert torch.equal(updates["priority"][0].priorities, updates["both"][0].priorities)
    assert not torch.equal(updates["none"][0].priorities, updates["both"][0].priorities)
    squares = {kind: square for kind, (_, square) in updates.items()}
    assert same_tree(squares["none"], squares["priority"])
    in_batch = torch.bincount(batch.arm, minlength=CONFIG.family.arms) > 0
    assert torch.equal(squares["none"] != known, in_batch.expand(3, -1))


@pytest.mark.parametrize("factor", [0.1, 1e3])
def test_scaled_losses_do_not_know_the_size_of_errors_by_law(factor: float) -> None:
    """Larger errors with matching running squares give the same losses and priorities.

    Here errors come only from rewards: values are zero, and there is no transform h.
    """
    config = changed(CONFIG, learner={"td_scale": "both", "transform": "identity"})
    found = []
    for size in (1.0, factor):
        learner = make_learner(config)
        for parameter in learner.networks.value.parameters():
            parameter.data.zero_()
        zero = learner.networks.value.state_dict()
        squares = torch.full((3, config.family.arms), size**2)
        squares[2] = 1.0
        learner.load_state_dict({**learner.state_dict(), "target": zero, "td_squares": squares})
        batch = random_batch(config, LENGTHS)
        rewards = {name: size * getattr(batch, name) for name in ("extrinsic", "intrinsic")}
        found.append(learner.update(replace(batch, **rewards)))
    for name in ("loss/extrinsic", "loss/intrinsic"):
        assert found[0].metrics[name] == pytest.approx(found[1].metrics[name], rel=1e-4)
    torch.testing.assert_close(found[0].priorities, found[1].priorities, rtol=1e-4, atol=1e-5)


def test_errors_and_leads_per_arm_by_definition() -> None:
    learner = make_learner(CONFIG)
    learner.update(random_batch(CONFIG, seed=5))  # so that online and target differ
    batch = replace(random_batch(CONFIG, LENGTHS), arm=torch.tensor([0, 2, 2, 3]))
    stale = copy.deepcopy(learner.networks.value)
    stale.load_state_dict(learner.state_dict()["target"])
    with torch.no_grad():
        online, _ = unroll(learner.networks.value, batch, batch.state, slice(None))
        behind, _ = unroll(stale, batch, batch.state, slice(None))
    beta = torch.from_numpy(betas(CONFIG.family)).float()[batch.arm]
    gamma = torch.from_numpy(gammas(CONFIG.family)).float()[batch.arm]
    td = td_errors(
        online,
        behind,
        batch,
        beta=beta,
        gamma=gamma,
        loss=CONFIG.learner,
        values="separate",
        scale=torch.ones(2, CONFIG.family.arms),
    )
    metrics = learner.update(batch).metrics

    unsorted = online[0] + beta[:, None] * online[1]
    is_best = unsorted[:-1].argmax(-1) == batch.action
    # The probability of the action under the target policy.
    prob = 0.01 / SPEC.num_actions + 0.99 * is_best
    traces = 0.95 * (prob / batch.action_prob).clamp(max=1)
    mixture = unsorted.sort(descending=True).values
    for arm, windows in {0: [0], 2: [1, 2], 3: [3]}.items():
        places = [(row, b) for b in windows for row in range(LENGTHS[b])]
        sizes = torch.stack([td[:, row, b].abs() for row, b in places]).mean(0)
        assert metrics[f"td/extrinsic/{arm}"] == pytest.approx(sizes[0].item(), rel=1e-4)
        assert metrics[f"td/intrinsic/{arm}"] == pytest.approx(sizes[1].item(), rel=1e-4)
        leads = torch.stack([mixture[row, b, 0] - mixture[row, b, 1] for row, b in places])
        assert metrics[f"action_gap/{arm}"] == pytest.approx(leads.mean().item(), rel=1e-4)
        trace = torch.stack([traces[row, b] for row, b in places]).mean().item()
        assert metrics[f"trace/{arm}"] == pytest.approx(trace, rel=1e-4)
    shares = [metrics[f"batch_share/{arm}"] for arm in range(4)]
    assert shares == [0.25, 0.0, 0.5, 0.25]
    difference = (online - behind).abs()
    valid = [difference[:, row, b] for b, n in enumerate(LENGTHS) for row in range(n)]
    means = torch.stack(valid).mean((0, 2))
    assert metrics["target_difference/extrinsic"] == pytest.approx(means[0].item(), rel=1e-4)
    assert metrics["target_difference/intrinsic"] == pytest.approx(means[1].item(), rel=1e-4)


def test_arms_that_are_not_in_the_batch_have_no_metrics() -> None:
    batch = replace(random_batch(CONFIG), arm=torch.tensor([0, 2, 2, 3]))
    metrics = make_learner(CONFIG).update(batch).metrics
    said = {name for name in metrics if name.endswith("/1")}
    assert said == {"batch_share/1"}


def test_a_joint_network_has_one_error_per_arm_and_burn_in_rows_do_not_count() -> None:
    batch = random_batch(BURN_IN, starts=(4, 8, 4, 4))
    other = replace(batch, extrinsic=batch.extrinsic.clone())
    other.extrinsic[:4] += 10
    metrics = [make_learner(BURN_IN).update(b).metrics for b in (batch, other)]
    for name in ("td/joint/0", "action_gap/0", "target_difference/joint"):
        assert metrics[0][name] == metrics[1][name]
    assert metrics[0]["td/joint/0"] > 0
    assert not [name for name in metrics[0] if name.startswith("td/extrinsic")]


def test_n_step_returns_have_no_traces() -> None:
    config = replace(CONFIG, learner=replace(CONFIG.learner, loss="n_step"))
    metrics = make_learner(config).update(random_batch(config)).metrics
    assert not [name for name in metrics if name.startswith("trace/")]


def test_a_single_action_leads_by_nothing() -> None:
    spec = replace(SPEC, num_actions=1)
    update = make_learner(CONFIG, spec).update(random_batch(CONFIG, spec=spec))
    assert update.metrics["action_gap/0"] == 0


def test_states_from_before_errors_were_measured_still_load() -> None:
    """At first `td_squares` was missing; then it was in the networks, later with a weight row."""
    learner, squares = make_learner(CONFIG), torch.full((2, CONFIG.family.arms), 4.0)
    state = learner.state_dict()
    networks = dict(state["networks"])
    del state["td_squares"]
    learner.load_state_dict({**state, "networks": networks})
    assert not learner.weights()[0]["td_squares"].any()
    learner.load_state_dict({**state, "networks": {**networks, "td_squares": squares}})
    known = learner.weights()[0]["td_squares"]
    assert torch.equal(known, torch.cat([squares, torch.ones(1, CONFIG.family.arms)]))
    assert torch.equal(td_scale(known), torch.full_like(squares, 2.0))
    learner.load_state_dict({**state, "networks": {**networks, "td_squares": 3 * known}})
    assert torch.equal(learner.weights()[0]["td_squares"], 3 * known)


def test_the_average_follows_the_online_networks_by_hand() -> None:
    learner = make_learner(changed(CONFIG, network={"average_rate": 0.25}))
    assert learner.networks.average is not None
    expected = [weight.clone() for weight in learner.networks.average.parameters()]
    for update in range(3):
        learner.update(random_batch(CONFIG, seed=update))
        online = learner.networks.value.parameters()
        expected = [0.75 * old + 0.25 * new for old, new in zip(expected, online, strict=True)]
        torch.testing.assert_close(list(learner.networks.average.parameters()), expected)


def test_without_an_average_evaluations_play_the_online_networks() -> None:
    networks = make_learner(CONFIG).networks
    assert networks.evaluated is networks.value


@pytest.mark.parametrize("agent", ["agent57", "meme", "ngu"])
def test_two_threads_make_the_same_update_as_one(agent: str) -> None:
    config, number, results = small_config(agent), torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            learner = Learner(config, make_networks(config, SPEC), CPU)
            metrics = [learner.update(random_batch(config, seed=seed)).metrics for seed in (1, 2)]
            results.append((metrics, weights_of(learner)))
    finally:
        torch.set_num_threads(number)
    assert same_tree(*results)


@pytest.fixture
def _two_threads() -> Iterator[None]:
    number = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(number)


@pytest.mark.usefixtures("_two_threads")
def test_an_update_has_half_of_the_threads_between_networks_too(monkeypatch) -> None:
    seen = []

    def recorded(*args: Any, **kwargs: Any) -> Tensor:
        seen.append(torch.get_num_threads())
        return td_errors(*args, **kwargs)

    monkeypatch.setattr("agent57.learner.td_errors", recorded)
    learner = Learner(CONFIG, make_networks(CONFIG, SPEC), CPU)
    learner.update(random_batch(CONFIG, LENGTHS))
    assert seen == [1]
    assert torch.get_num_threads() == 2
    broken = random_batch(CONFIG, LENGTHS)
    broken.extrinsic[0, 0] = float("nan")
    with pytest.raises(NonFiniteUpdate):
        learner.update(broken)
    assert torch.get_num_threads() == 2
