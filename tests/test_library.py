"""agent57 from Python: train, resume, metrics, callbacks, early stop, threads."""

import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import agent57
from agent57.library import Table, console_for
from agent57.presets import difference
from tests.runtime.runs import difference as differences
from tests.runtime.runs import result, run_config, stop_after
from tests.runtime.runs import train as train_by_command
from tests.small import changed


@pytest.fixture(autouse=True)
def _quiet_about_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent57, "TORCH_CAME_FIRST", False)


def trained(path: Path, frames: int = 240, **options: Any) -> agent57.Run:
    return agent57.train(config=run_config("toy/cue", frames), out=path, view="quiet", **options)


def test_a_run_from_python_is_the_run_of_the_command_line(tmp_path: Path) -> None:
    run = trained(tmp_path / "python")
    train_by_command(run_config("toy/cue", 240), tmp_path / "command")
    assert not differences(result(run.path), result(tmp_path / "command"))
    assert run.is_finished
    assert run.frames == 240
    assert "agent57 on toy/cue, 240 of 240 frames" in repr(run)


def test_records_come_as_arrays(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", frames=100)
    metrics, episodes = run.metrics(), run.episodes()
    # A line at each multiple of 30 steps of three lanes, and one for the rest.
    assert metrics["frames"].tolist() == [30, 60, 90, 102]
    assert metrics["frames"].dtype.kind == "i"
    assert set(episodes["source"]) == {"actor", "evaluator"}
    assert len(episodes["return"]) == len(episodes["length"])


def test_a_table_marks_what_a_line_does_not_have() -> None:
    table = Table.of([{"a": 1, "b": 2.0, "c": "x"}, {"a": 3}])
    assert table["a"].tolist() == [1, 3]
    assert table["b"][0] == 2.0
    assert np.isnan(table["b"][1])
    assert table["c"].tolist() == ["x", None]


def test_pandas_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = Table.of([{"a": 1}])
    with pytest.raises(agent57.ConfigError, match="pip install pandas"):
        table.to_pandas()


def test_callbacks_hear_every_line_and_stop_the_run(tmp_path: Path) -> None:
    metrics: list[dict] = []
    episodes: list[dict] = []

    def enough(row: dict[str, Any]) -> bool:
        metrics.append(row)
        return row["frames"] >= 60

    run = trained(tmp_path / "run", on_metrics=enough, on_episode=episodes.append)
    assert not run.is_finished
    assert run.frames == 60
    assert [row["frames"] for row in metrics] == [30, 60]
    assert [row["return"] for row in episodes] == run.episodes()["return"].tolist()

    # The run then goes on as if it had never been stopped.
    again = agent57.resume(run.path, view="quiet")
    assert again.is_finished
    whole = trained(tmp_path / "whole")
    assert not differences(result(again.path), result(whole.path))


def test_a_run_in_a_thread_is_the_same_run(tmp_path: Path) -> None:
    thread = threading.Thread(target=trained, args=(tmp_path / "thread",))
    thread.start()
    thread.join()
    trained(tmp_path / "main")
    assert not differences(result(tmp_path / "thread"), result(tmp_path / "main"))


def test_the_callers_threads_are_given_back(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        trained(tmp_path / "run", frames=30)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_run_is_evaluated_and_loaded(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", frames=60)
    result = run.evaluate(episodes=3, seed=5)
    assert len(result["returns"]) == 3
    assert result == run.evaluate(episodes=3, seed=5)
    policy = run.policy(arm=1)
    action, _ = policy.act(np.zeros(3, np.float32), policy.initial_state(), first=True)
    assert action in (0, 1)
    assert policy.arm == 1


def test_a_run_of_meme_goes_through_every_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = agent57.make_config(
        agent="meme", scale="tiny", env="toy/cue", actor={"lanes": 2}, replay={"min_windows": 4}
    )
    config = changed(config, run={"frames": 240, "threads": 1, "checkpoint_seconds": 1e6})
    whole = agent57.train(config=config, out=tmp_path / "whole", view="quiet")
    with monkeypatch.context() as patch:
        stop_after(60, patch)
        half = agent57.train(config=config, out=tmp_path / "half", view="quiet")
    assert not half.is_finished
    half = agent57.resume(half.path, view="quiet")
    assert not differences(result(half.path), result(whole.path))
    assert whole.metrics()["updates"][-1] > 0
    video = tmp_path / "meme.gif"
    assert len(whole.evaluate(episodes=2, video=video)["returns"]) == 2
    assert video.stat().st_size > 0
    whole.policy().save(tmp_path / "meme.agent57")
    policy = agent57.load(tmp_path / "meme.agent57")
    assert policy.act(np.zeros(3, np.float32), policy.initial_state(), first=True)[0] in (0, 1)
    assert "meme on toy/cue" in whole.report().read_text()


def test_a_configuration_by_names() -> None:
    config = agent57.make_config("r2d2", "tiny", "CartPole-v1", replay={"capacity": 9000}, seed=3)
    changed = difference(config, agent57.make_config("r2d2", "tiny"))
    assert {name: ours for name, (ours, _) in changed.items()} == {
        "env.name": "CartPole-v1",
        "replay.capacity": 9000,
        "run.kind": "vector",
        "run.seed": 3,
    }
    betas = agent57.make_config(family={"arms": 2, "betas": (0.0, 0.1)}).family.betas
    assert betas == (0.0, 0.1)


def test_numbers_are_taken_as_programs_write_them() -> None:
    config = agent57.make_config(
        scale="tiny",
        env="CartPole-v1",
        frames=1e6,  # type: ignore[arg-type]
        seed=np.int64(3),  # type: ignore[arg-type]
        replay={"capacity": 5e4, "priority_exponent": np.float32(0.5)},
    )
    assert (config.run.frames, config.run.seed, config.replay.capacity) == (1_000_000, 3, 50_000)
    assert [type(v) for v in (config.run.frames, config.run.seed)] == [int, int]
    assert config.replay.priority_exponent == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reply": {}}, "unknown section 'reply'.*did you mean replay"),
        ({"replay": {"capacty": 1}}, "unknown field 'replay.capacty'.*replay.capacity"),
        ({"replay": 5}, "replay must be a dict"),
        ({"replay": {"capacity": 10}}, "replay.capacity must hold two windows"),
        ({"agent": "agent58"}, "agent58"),
        ({"frame": 5}, "unknown argument 'frame'; did you mean frames"),
        ({"wrapper": "m:f"}, r"'wrapper' is a field of env: write env_options=\{'wrapper': ...\}"),
        ({"capacity": 5}, r"'capacity' is a field of replay: write replay=\{'capacity': ...\}"),
        ({"frames": 1.5}, "run.frames must be a whole number, got 1.5"),
    ],
)
def test_mistakes_are_one_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(agent57.ConfigError, match=message) as caught:
        agent57.make_config(**options)
    assert "\n" not in str(caught.value)


def test_a_whole_configuration_leaves_no_room_for_another_agent(tmp_path: Path) -> None:
    with pytest.raises(agent57.ConfigError, match="leave agent= out"):
        trained(tmp_path / "run", agent="ngu")
    with pytest.raises(agent57.ConfigError, match="config must come from make_config, got 'x'"):
        agent57.train(config="x", out=tmp_path / "run")  # type: ignore[arg-type]
    with pytest.raises(agent57.ConfigError, match="view 'loud' is not one of live"):
        console_for("loud")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_warnings_reach_a_program_that_asked_for_quiet(tmp_path: Path) -> None:
    run = trained(tmp_path / "run", frames=60)
    newest = max((run.path / "checkpoints").glob("*.json"))
    newest.write_text("torn")
    with pytest.warns(RuntimeWarning, match="using the checkpoint before it"):
        agent57.resume(run.path, view="quiet")


def test_torch_imported_before_agent57_is_warned_about(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent57, "TORCH_CAME_FIRST", True)
    with pytest.warns(RuntimeWarning, match="import agent57 before torch"):
        trained(tmp_path / "late", frames=30)
    monkeypatch.setattr(agent57, "TORCH_CAME_FIRST", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        trained(tmp_path / "early", frames=30)


def test_importing_agent57_lets_idle_threads_sleep() -> None:
    code = "import os, agent57; print(os.environ['OMP_WAIT_POLICY'], agent57.TORCH_CAME_FIRST)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["PASSIVE", "False"]


def test_the_package_lists_what_it_offers() -> None:
    assert {"train", "resume", "load", "make_config", "Run", "Policy"} <= set(dir(agent57))
    assert all(getattr(agent57, name) is not None for name in dir(agent57))
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        _ = agent57.trian
