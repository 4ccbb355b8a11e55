"""Acting, learning and saving on a device that is not the CPU: forgotten tensors are errors.

Only a real GPU can test kernels, pinned and asynchronous copies, streams, CUDA's autocast, compiled
updates, NCCL, and a lack of memory.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch

from agent57.actor import Actor
from agent57.config import Config
from agent57.envs.make import check_env, make_env
from agent57.evaluator import Evaluator
from agent57.learner import Learner
from agent57.player import make_networks
from agent57.presets import PRESETS
from agent57.replay.block import make_layout
from tests.simulated_device import META, MixedDevices, SimulatedDevice
from tests.small import make_learner, random_batch, small_config

pytestmark = pytest.mark.filterwarnings("ignore:.*copying from a non-meta parameter.*:UserWarning")
KINDS = {"pixels": "pong", "grid": "MiniGrid-Empty-5x5-v0", "vector": "CartPole-v1"}


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedDevice]:
    # Fused optimisers have no kernel for meta, so plain optimisers are used.
    for name in ("Adam", "AdamW"):
        monkeypatch.setattr(torch.optim, name, _plain(getattr(torch.optim, name)))
    monkeypatch.setattr(torch, "autocast", _autocast)
    with SimulatedDevice() as device:
        yield device


def _autocast(device_type: str, dtype: torch.dtype, enabled: bool) -> nullcontext[None]:
    """Replace autocast, which has no meta device, and check that it gets the learner's device."""
    assert device_type == "meta"
    return nullcontext()


def _plain(adam: type[torch.optim.Adam]):
    def make(parameters, *, fused: bool, **options):
        assert fused
        return adam(parameters, fused=False, **options)

    return make


def config_of(kind: str, agent: str = "agent57") -> Config:
    config = small_config(agent)
    return replace(config, env=replace(config.env, name=KINDS[kind]))


def test_tensors_that_are_mixed_are_found() -> None:
    here, there = torch.zeros(3, 3), torch.zeros(3, 3, device=META)
    with SimulatedDevice() as device:
        for mix in (
            lambda: there + here,
            lambda: there @ here,  # `meta` alone would allow this
            lambda: here[there.long()],
            lambda: there.gather(0, here.long()),
            lambda: torch.nn.functional.linear(there, here),
        ):
            with pytest.raises((MixedDevices, RuntimeError)):
                mix()
        assert (there + 1 + torch.tensor(1.0)).is_meta
        assert there.cpu().tolist() == [[0.0] * 3] * 3
        assert float(there.sum()) == 0.0
        assert here.to(META).is_meta
        assert device.num_operations > 0


@pytest.mark.parametrize("agent", PRESETS)
def test_an_update_stays_on_its_device(agent: str, device: SimulatedDevice) -> None:
    config = small_config(agent)
    learner = _learner(config)
    batch = random_batch(config)
    update = learner.update(batch)
    assert learner.num_updates == 1
    assert not update.priorities.is_meta
    assert all(isinstance(value, float) for value in update.metrics.values())
    assert {x.device.type for x in learner.networks.state_dict().values()} == {"meta"}
    assert device.num_operations > 100


@pytest.mark.parametrize("scale", ["none", "priority", "both"])
def test_scaled_errors_stay_on_the_device(scale: str, device: SimulatedDevice) -> None:
    config = small_config(learner={"td_scale": scale, "target_period": 1})
    learner = _learner(config)
    for _ in range(2):  # the second update has gradients to clear, and copied targets
        learner.update(random_batch(config))
    state = learner.state_dict()
    learner.load_state_dict(state)
    assert learner.num_updates == 2


def _learner(config: Config) -> Learner:
    networks = make_learner(config).networks
    return Learner(config, networks, META)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("agent", ["agent57", "r2d2"])
def test_lanes_act_on_the_device(kind: str, agent: str, device: SimulatedDevice) -> None:
    config = config_of(kind, agent)
    env = make_env(config.env, config.actor.lanes)
    networks = make_networks(config, env.spec)
    weights, _ = Learner(config, networks, META).weights()
    versions = iter(range(100))
    published = lambda: (weights, next(versions))  # noqa: E731
    actor = Actor(config, env, make_layout(env.spec, networks), published, META)
    blocks = []
    for _ in range(2 * config.sequence.replay_period + 2):  # long enough to pull weights again
        blocks += actor.step()[0]
    assert len(blocks) >= 2 * config.actor.lanes
    assert all(isinstance(block.steps, np.ndarray) for block in blocks)
    assert device.num_operations > 100
    env.close()


def test_the_evaluator_plays_on_the_device(device: SimulatedDevice) -> None:
    config = config_of("vector")
    learner = Learner(config, make_networks(config, check_env(config.env)), META)
    env = make_env(config.env, config.evaluator.lanes)
    evaluator = Evaluator(config, env, learner.weights, META)
    for _ in range(60):
        evaluator.step(0)
    evaluator.load_state_dict(evaluator.state_dict())
    env.close()
