"""A policy as one file: it acts as its run, needs no environment and runs no code."""

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

import agent57
from agent57.config import ConfigError
from agent57.trained import trained_run as trained_module
from agent57.trained.policy_file import read_policy, read_trained
from agent57.trained.trained_run import TrainedRun
from tests.trained_run import call, trained_run


def play(policy: agent57.Policy, rows: np.ndarray) -> list[Any]:
    state = policy.initial_state()
    seen = []
    for index, row in enumerate(rows):
        action, state = policy.act(row, state, reward=0.1 * index, first=index == 0)
        assert state.decision is not None
        seen.append((action, state.decision.outputs.tolist()))
    return seen


def rows_for(policy: agent57.Policy, count: int = 8) -> np.ndarray:
    rng = np.random.default_rng(3)
    return rng.random((count, *policy.spec.observation_shape)).astype(np.float32)


def test_a_saved_policy_acts_as_its_run(tmp_path: Path) -> None:
    policy = agent57.load(trained_run())
    num_bytes = policy.save(tmp_path / "chain.agent57")
    assert (tmp_path / "chain.agent57").stat().st_size == num_bytes
    loaded = agent57.load(tmp_path / "chain.agent57")
    assert loaded.spec == policy.spec
    assert (loaded.arm, loaded.beta, loaded.gamma) == (policy.arm, policy.beta, policy.gamma)
    assert play(loaded, rows_for(policy)) == play(policy, rows_for(policy))
    assert "toy/chain" in repr(loaded)


def test_it_is_small_and_half_of_it_is_smaller(tmp_path: Path) -> None:
    run = trained_run()
    checkpoints = sum(file.stat().st_size for file in (run / "checkpoints").iterdir())
    code, text = call("export", run, "--weights", tmp_path / "whole.agent57")
    assert code == 0, text
    code, text = call("export", run, "--weights", tmp_path / "half.agent57", "--half")
    assert code == 0, text
    whole, half = ((tmp_path / f"{n}.agent57").stat().st_size for n in ("whole", "half"))
    assert half < whole < checkpoints / 2
    policy = agent57.load(tmp_path / "half.agent57")
    values = [value for _, value in play(policy, rows_for(policy))]
    wanted = [value for _, value in play(agent57.load(run), rows_for(policy))]
    np.testing.assert_allclose(values, wanted, atol=0.02)


def test_loading_a_file_makes_no_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained_run("CartPole-v1")
    agent57.load(run).save(tmp_path / "pole.agent57")
    spec = gymnasium.registry.pop("CartPole-v1")
    try:
        policy = agent57.load(tmp_path / "pole.agent57")
        assert policy.act(np.zeros(4, np.float32), policy.initial_state())[0] in (0, 1)
        with pytest.raises(ConfigError, match="agent57 export .* --weights FILE"):
            agent57.load(run)
    finally:
        gymnasium.registry["CartPole-v1"] = spec


def test_a_file_can_be_evaluated(tmp_path: Path) -> None:
    run = trained_run()
    agent57.load(run).save(tmp_path / "chain.agent57")
    code, text = call("evaluate", tmp_path / "chain.agent57", "--episodes", "3")
    assert code == 0, text
    assert call("evaluate", run, "--episodes", "3")[1].splitlines()[1:] == text.splitlines()[1:]


def test_a_file_read_twice_is_the_same(tmp_path: Path) -> None:
    agent57.load(trained_run()).save(tmp_path / "a.agent57")
    agent57.load(tmp_path / "a.agent57").save(tmp_path / "b.agent57")
    first, second = read_policy(tmp_path / "a.agent57"), read_trained(tmp_path / "b.agent57")
    assert first.config == second.config
    assert first.counters == second.counters
    assert all(torch.equal(first.weights[n], second.weights[n]) for n in first.weights)
    assert isinstance(read_trained(trained_run()), TrainedRun)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


FORGED = {
    "nothing": b"",
    "text": b"hello",
    "a pickle": pickle.dumps(Evil()),
    "a pickle in torch's clothes": saved({"format": Evil()}),
    "a list": saved([1]),
    "another format": saved({"format": "other", "version": 1}),
    "another version": saved({"format": "agent57 policy", "version": 99}),
    "no content": saved({"format": "agent57 policy", "version": 1}),
    "no tensors": saved({"format": "agent57 policy", "version": 1, "spec": 3, "config": {}}),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_is_no_policy_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "x.agent57"
    file.write_bytes(FORGED[name])
    with pytest.raises(ConfigError) as caught:
        agent57.load(file)
    assert "\n" not in str(caught.value)
    assert str(file) in str(caught.value)
    assert not (tmp_path / "executed").exists()


def test_a_file_that_unpacks_to_more_than_it_is_is_refused(tmp_path: Path) -> None:
    agent57.load(trained_run()).save(tmp_path / "a.agent57")
    packed = tmp_path / "b.agent57"
    with (
        zipfile.ZipFile(tmp_path / "a.agent57") as old,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    with pytest.raises(ConfigError, match="compressed"):
        agent57.load(packed)


def test_weights_of_other_networks_are_refused(tmp_path: Path) -> None:
    agent57.load(trained_run()).save(tmp_path / "a.agent57")
    content = torch.load(tmp_path / "a.agent57", weights_only=True)
    content["weights"].popitem()
    (tmp_path / "a.agent57").write_bytes(saved(content))
    with pytest.raises(ConfigError, match="weights of other networks"):
        agent57.load(tmp_path / "a.agent57")


FORGED_FIELDS = {
    "a version that is a tensor": {"version": torch.zeros(2)},
    "a kind that there is not": {"spec.kind": 1.5},
    "no observation": {"spec.observation_shape": []},
    "observations of a wrong type": {"spec.observation_dtype": "object"},
    "an image without sides": {"spec.image_shape": -1},
    "no action": {"spec.num_actions": 0},
    "too many actions": {"spec.num_actions": 10**12},
    "counters that are none": {"counters": {}},
    "counters of a wrong type": {"counters": 5},
    "an arm that there is not": {"best_arm": 99},
    "an arm of a wrong type": {"best_arm": torch.zeros(2)},
    "curiosity of a wrong type": {"curiosity": True},
    "scales of a wrong type": {"curiosity.memory": None},
    "scales that are not finite": {"curiosity.memory.distance_sum": torch.full((1,), torch.nan)},
    "networks of gigabytes": {"config.network.state_size": 30_000},
    "networks beyond any memory": {"config.network.state_size": 10**9},
    "a memory beyond any memory": {"config.curiosity.memory_size": 10**13},
    "a number beyond any array": {"config.run.frames": 10**400},
}


@pytest.mark.parametrize("name", FORGED_FIELDS)
def test_a_forged_field_of_a_policy_is_one_line(name: str, tmp_path: Path) -> None:
    file = tmp_path / "a.agent57"
    agent57.load(trained_run()).save(file)
    content = torch.load(file, weights_only=True)
    for field, value in FORGED_FIELDS[name].items():
        *groups, last = field.split(".")
        place = content
        for group in groups:
            place = place[group]
        place[last] = value
    torch.save(content, file)
    with pytest.raises(ConfigError) as caught:
        agent57.load(file).initial_state()
    assert str(file) in str(caught.value) or "do not fit in memory" in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_networks_are_not_made_before_their_weights_are_known_to_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configuration of a small file may ask for networks that take gigabytes."""
    agent57.load(trained_run()).save(tmp_path / "a.agent57")
    content = torch.load(tmp_path / "a.agent57", weights_only=True)
    content["config"]["network"]["state_size"] = 30_000
    torch.save(content, tmp_path / "a.agent57")
    made = []
    real = trained_module.make_networks

    def make(*args: Any) -> Any:
        networks = real(*args)
        made.append({weight.device.type for weight in networks.parameters()})
        return networks

    monkeypatch.setattr(trained_module, "make_networks", make)
    with pytest.raises(ConfigError, match="weights of other networks"):
        agent57.load(tmp_path / "a.agent57")
    assert made == [{"meta"}]


def test_export_says_what_it_needs(tmp_path: Path) -> None:
    code, text = call("export", trained_run())
    assert code == 2
    assert "--weights FILE" in text
    code, text = call("export", trained_run(), "--csv", tmp_path / "m.csv", "--half")
    assert code == 2
    assert "--half is for --weights" in text
