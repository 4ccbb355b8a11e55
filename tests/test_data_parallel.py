"""Compares two learners on halves of a batch, in two processes, with one on the whole batch."""

import os
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing as mp
from torch import Tensor

from agent57.config import Config
from agent57.data_parallel import LearnerGroup
from agent57.learner import Learner, NonFiniteUpdate
from agent57.nets.networks import make_networks
from agent57.types import Batch
from tests.small import CPU, SPEC, changed, random_batch, same_tree, small_config

NUM_UPDATES = 5
LENGTHS = (8, 8, 8, 3, 1, 2)  # the second half has far fewer steps than the first
AGENT57 = changed(
    small_config(),
    learner={"target_period": 2, "clip_norm": 1.0, "inverse_l2": 0.1},
    replay={"importance_exponent": 0.6},
)
CASES = {  # name: configuration, windows of the first learner
    "separate": (AGENT57, 3),
    "joint": (changed(small_config("ngu"), replay={"importance_exponent": 0.6}), 3),
    "burn-in": (small_config("r2d2"), 3),
    "unequal shares": (AGENT57, 2),
    "standard vectors": (changed(AGENT57, network={"vector_input": "standard"}), 3),
    "meme": (changed(small_config("meme"), replay={"importance_exponent": 0.6}), 3),
    "arms that are drawn": (changed(AGENT57, learner={"cross_mixture": 0.5}), 3),
    "scaled errors": (changed(AGENT57, learner={"td_scale": "both"}), 3),
}


def make_batch(config: Config, update: int) -> Batch:
    return random_batch(config, LENGTHS, starts=(0, 4, 4, 0, 4, 0), seed=update)


def make_learner(config: Config, group: LearnerGroup | None = None) -> Learner:
    return Learner(config, make_networks(config, SPEC), CPU, group)


def columns(batch: Batch, windows: slice) -> Batch:
    """Return some windows of a batch."""
    cut = {}
    for name in Batch.__dataclass_fields__:
        value: Tensor = getattr(batch, name)
        axis = {"arm": 0, "start": 0, "key": 0, "probability": 0, "state": 2}.get(name, 1)
        cut[name] = value[(slice(None),) * axis + (windows,)]
    return Batch(**cut)


def results(learner: Learner, batches: list[Batch]) -> dict[str, Any]:
    """Return a learner's metrics, priorities and state after updates on these batches."""
    updates = [learner.update(batch) for batch in batches]
    return {
        "metrics": [update.metrics for update in updates],
        "priorities": torch.stack([update.priorities for update in updates]),
        "state": learner.state_dict(),
    }


def share_of(rank: int, boundary: int) -> slice:
    return slice(0, boundary) if rank == 0 else slice(boundary, None)


def breaks_down(group: LearnerGroup, rank: int) -> dict[str, Any]:
    """Make an update that is not finite for the second learner only; return what happens."""
    learner = make_learner(AGENT57, group)
    batch = columns(make_batch(AGENT57, 0), share_of(rank, 3))
    if rank == 1:
        batch.intrinsic[0, 0] = float("nan")
    before = pickle.dumps(learner.state_dict()["networks"])
    try:
        learner.update(batch)
        message = "nothing was raised"
    except NonFiniteUpdate as error:
        message = str(error)
    is_unchanged = before == pickle.dumps(learner.state_dict()["networks"])
    after = results(learner, [columns(make_batch(AGENT57, 1), share_of(rank, 3))])
    return {"message": message, "is_unchanged": is_unchanged, "after": after}


def falls_out_of_step(group: LearnerGroup, rank: int) -> str:
    """Load another state into the second learner only; return the error message."""
    learner = make_learner(AGENT57, group)
    if rank == 1:
        learner.num_updates = 7
    with pytest.raises(RuntimeError) as caught:
        learner.update(columns(make_batch(AGENT57, 0), share_of(rank, 3)))
    return str(caught.value)


def learn_together(rank: int, folder: Path) -> None:
    """Run all cases in one of two processes, and write the results to a file."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    group = LearnerGroup.join((folder / "meeting").as_uri(), rank, 2, CPU)
    found: dict[str, Any] = {}
    for name, (config, boundary) in CASES.items():
        batches = [make_batch(config, update) for update in range(NUM_UPDATES)]
        shares = [columns(batch, share_of(rank, boundary)) for batch in batches]
        found[name] = results(make_learner(config, group), shares)
    found["not finite"] = breaks_down(group, rank)
    found["out of step"] = falls_out_of_step(group, rank)
    found["gathered"] = group.gather(torch.tensor([[1.0, rank]]))
    tensors = [torch.tensor(float(rank)), torch.full((2, 3, 1), 10.0 * rank).transpose(0, 1)]
    group.average(iter(tensors))
    found["averaged"] = tensors
    group.leave()
    torch.save(found, folder / f"{rank}.pt")


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Return the results of the two learners."""
    folder = tmp_path_factory.mktemp("group")
    mp.spawn(learn_together, (folder,), nprocs=2)
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.mark.parametrize("name", CASES)
def test_two_learners_equal_one_by_law(name: str, both: list[dict[str, Any]]) -> None:
    config, _ = CASES[name]
    torch.set_num_threads(1)
    batches = [make_batch(config, update) for update in range(NUM_UPDATES)]
    alone = results(make_learner(config), batches)
    together = [found[name] for found in both]
    close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)

    priorities = torch.cat([found["priorities"] for found in together], dim=1)
    close(priorities, alone["priorities"])
    for found in together:
        for update, expected in zip(found["metrics"], alone["metrics"], strict=True):
            assert update == pytest.approx(expected, rel=1e-3, abs=1e-5)
    for part in ("networks", "target"):
        for key, weight in alone["state"][part].items():
            close(together[0]["state"][part][key], weight, msg=f"{part}.{key}")


@pytest.mark.parametrize("name", CASES)
def test_their_states_and_metrics_are_the_same_bit_for_bit(
    name: str, both: list[dict[str, Any]]
) -> None:
    first, second = (found[name] for found in both)
    assert same_tree(first["state"], second["state"])
    assert first["metrics"] == second["metrics"]


def test_the_test_would_notice_means_of_means() -> None:
    # Steps and largest weights differ between the halves, so plain averages are wrong.
    batch = make_batch(AGENT57, 0)
    whole = make_learner(AGENT57).update(batch).metrics
    halves = [
        make_learner(AGENT57).update(columns(batch, share_of(rank, 3))).metrics for rank in (0, 1)
    ]
    for name in ("loss/extrinsic", "loss/rnd", "loss/inverse_dynamics", "td/mean_abs"):
        plain = (halves[0][name] + halves[1][name]) / 2
        assert plain != pytest.approx(whole[name], rel=1e-3), name


def test_all_learners_refuse_what_is_not_finite_for_one(both: list[dict[str, Any]]) -> None:
    for found in both:
        assert found["not finite"]["message"] == "loss/intrinsic is not finite"
        assert found["not finite"]["is_unchanged"]
    after = [found["not finite"]["after"] for found in both]
    assert same_tree(after[0]["state"], after[1]["state"])
    alone = make_learner(AGENT57)
    expected = alone.update(make_batch(AGENT57, 1))
    assert after[0]["metrics"][0] == pytest.approx(expected.metrics, rel=1e-3, abs=1e-5)


def test_learners_of_different_age_are_refused(both: list[dict[str, Any]]) -> None:
    said = {found["out of step"] for found in both}
    assert said == {"learners of a group are out of step: [0, 7] updates were made"}


def test_values_are_gathered_and_averaged_by_hand(both: list[dict[str, Any]]) -> None:
    for found in both:
        assert found["gathered"].tolist() == [[[1.0, 0.0]], [[1.0, 1.0]]]
        assert found["averaged"][0].item() == 0.5
        assert torch.equal(found["averaged"][1], torch.full((3, 2, 1), 5.0))
