"""Precision: how it is chosen, and bfloat16 against float32 on processors that have it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agent57 import precision
from agent57.config import Config, ConfigError
from agent57.learner import Learner, Update
from agent57.precision import has_bfloat16, settle_precision
from agent57.types import EnvSpec
from tests.small import CPU, changed, make_learner, random_batch, same_tree, small_config

CONFIG = small_config()
PIXELS = EnvSpec(
    name="pixels", kind="pixels", observation_shape=(1, 84, 84), observation_dtype="uint8",
    num_actions=3, frames_per_step=4,
)  # fmt: skip
needs_bfloat16 = pytest.mark.skipif(not has_bfloat16(CPU), reason="no bfloat16 in hardware")


def with_precision(value: str, config: Config = CONFIG) -> Config:
    return changed(config, learner={"precision": value})


def info(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    file = tmp_path / "cpuinfo"
    file.write_text(f"processor : 0\n{line}\n")
    monkeypatch.setattr(precision, "CPU_INFO", file)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flags : fpu avx512f avx512_bf16", True),
        ("flags : amx_bf16 amx_tile", True),
        ("Features : fp asimd bf16", True),
        ("flags : fpu avx2 avx512f", False),
        ("model name : avx512_bf16", False),
    ],
)
def test_processors_say_what_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, expected: bool
) -> None:
    info(tmp_path, monkeypatch, line)
    assert has_bfloat16(CPU) is expected


def test_a_processor_without_it_refuses_and_auto_does_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info(tmp_path, monkeypatch, "flags : fpu")
    with pytest.raises(ConfigError, match="learner.precision bfloat16 needs"):
        make_learner(with_precision("bfloat16"))
    assert settle_precision(with_precision("auto"), CPU).learner.precision == "float32"


def test_auto_takes_it_only_where_the_probe_gains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info(tmp_path, monkeypatch, "flags : avx512_bf16")
    monkeypatch.setattr(precision, "GAIN", 0.0)
    assert settle_precision(with_precision("auto"), CPU).learner.precision == "bfloat16"
    monkeypatch.setattr(precision, "GAIN", float("inf"))
    assert settle_precision(with_precision("auto"), CPU).learner.precision == "float32"


def test_a_chosen_precision_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "GAIN", 0.0)
    for value in ("float32", *(("bfloat16",) if has_bfloat16(CPU) else ())):
        assert settle_precision(with_precision(value), CPU).learner.precision == value


def updated(
    value: str, config: Config, spec: EnvSpec, seeds: tuple[int, ...]
) -> tuple[Learner, Update]:
    config = replace(config, learner=replace(config.learner, precision=value))
    learner = make_learner(config, spec)
    update = None
    for seed in seeds:
        update = learner.update(random_batch(config, spec=spec, seed=seed))
    assert update is not None
    return learner, update


@needs_bfloat16
def test_losses_and_gradients_are_those_of_float32_within_rounding() -> None:
    config = changed(CONFIG, network={"channels": (8, 8, 8)})
    learners = {value: updated(value, config, PIXELS, (3,)) for value in ("float32", "bfloat16")}
    (exact, first), (rounded, second) = learners["float32"], learners["bfloat16"]
    assert first.metrics.keys() == second.metrics.keys()
    for name, value in first.metrics.items():
        if name.startswith(("loss/", "gradient_norm/")):
            assert second.metrics[name] == pytest.approx(value, rel=0.05), name
    torch.testing.assert_close(first.priorities, second.priorities, rtol=0.05, atol=1e-3)
    for net in (0, 1):  # each value network, its whole gradient
        gradients = [
            torch.cat([p.grad.flatten() for p in learner.networks.value.nets[net].parameters()])
            for learner in (exact, rounded)
        ]
        assert torch.cosine_similarity(*gradients, dim=0) > 0.99


@needs_bfloat16
def test_large_values_keep_the_order_of_their_actions() -> None:
    """Values near 16 have steps of an eighth in bfloat16; these actions lie about as close."""
    networks = make_learner(CONFIG, PIXELS).networks
    batch = random_batch(CONFIG, spec=PIXELS, seed=0)
    prepared = networks.prepare(batch.observation)
    previous = (batch.previous_action, batch.previous_extrinsic, batch.previous_intrinsic)
    values = {}
    with torch.no_grad():
        for net in networks.value.nets:
            net.value[-1].bias.fill_(16.0)
        for is_rounded in (True, False):
            with torch.autocast("cpu", torch.bfloat16, enabled=is_rounded):
                found, _ = networks.value(prepared, *previous, batch.arm, batch.state)
            values[is_rounded] = found
    rounded, exact = values[True], values[False]
    assert rounded.dtype == torch.float32
    assert exact.mean() > 10
    assert (exact.amax(-1) - exact.amin(-1)).mean() < 0.5
    assert (exact.argmax(-1) == rounded.argmax(-1)).float().mean() > 0.95


@needs_bfloat16
def test_weights_stay_in_float32_and_novelty_is_exact() -> None:
    (exact, first), (rounded, second) = (
        updated(value, CONFIG, PIXELS, (1,)) for value in ("float32", "bfloat16")
    )
    assert {x.dtype for x in rounded.networks.state_dict().values()} == {torch.float32}
    for name in ("loss/inverse_dynamics", "loss/rnd"):
        assert first.metrics[name] == second.metrics[name]
    assert exact.num_updates == rounded.num_updates == 1


@needs_bfloat16
def test_it_is_deterministic_and_resumes_exactly() -> None:
    (one, _), (two, _) = (updated("bfloat16", CONFIG, PIXELS, (1, 2)) for _ in range(2))
    assert same_tree(one.state_dict(), two.state_dict())
    half, _ = updated("bfloat16", CONFIG, PIXELS, (1,))
    resumed, _ = updated("bfloat16", CONFIG, PIXELS, (5,))
    resumed.load_state_dict(half.state_dict())
    resumed.update(random_batch(with_precision("bfloat16"), spec=PIXELS, seed=2))
    assert same_tree(one.state_dict(), resumed.state_dict())
