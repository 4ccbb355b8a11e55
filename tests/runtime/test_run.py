"""By contract: a run starts, ends, resumes, and fails with one line that says what was saved."""

import io
import json
import shutil
import time

import pytest
import torch
from rich.console import Console

from agent57.config import ConfigError
from agent57.runtime import run
from agent57.runtime.parts import Parts
from agent57.runtime.run import RunFailed
from agent57.runtime.session import Session
from agent57.storage.checkpoint import CheckpointStore
from agent57.storage.folder import RunFolder, read_config
from tests.runtime import broken_envs
from tests.runtime.runs import (
    at_tick,
    difference,
    lines,
    result,
    resume,
    run_config,
    stop_after,
    train,
)

TASK = "agent57/Broken-v0"


@pytest.fixture
def fault(tmp_path, monkeypatch):
    """Give a function that sets the broken task's fault, or removes it."""
    file = tmp_path / "fault"
    monkeypatch.setenv(broken_envs.FAULT_FILE, str(file))
    return lambda name: file.write_text(name) if name else file.unlink()


def stopped_run(path, patch, task=TASK, num_ticks=20, frames=150):
    with patch.context() as patched:
        stop_after(num_ticks, patched)
        train(run_config(task, frames), path)


def test_a_run_says_how_it_ended_and_how_to_go_on(tmp_path):
    said = train(run_config("toy/cue", 60), tmp_path / "run")
    assert "finished after 60 frames" in said
    assert f"agent57 resume {tmp_path / 'run'} --frames 120" in said
    assert [row["frames"] for row in lines(tmp_path / "run", "metrics.jsonl")] == [30, 60]


def test_a_terminal_shows_the_task_at_once_and_a_panel_before_the_first_step(tmp_path):
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=200)
    seen = []

    def look(session, parts):
        seen.append(text.getvalue())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Session, "tick", look)
        config = run_config("toy/cue", 30, run={"agent": "agent57", "seed": 7})
        run.start(config, tmp_path / "run", console)
    before = seen[0]
    first_line = "training agent57 on toy/cue at tiny scale: 30 frames, seed 7, in /"
    assert before.index(first_line) < before.index("expected: ")
    assert "0 / 30" in before


def test_a_run_shorter_than_its_interval_writes_one_line(tmp_path):
    config = run_config("toy/cue", 15, run={"log_frames": 30})
    train(config, tmp_path / "run")
    assert [row["frames"] for row in lines(tmp_path / "run", "metrics.jsonl")] == [15]
    resume(tmp_path / "run", frames=75)  # now lines come where an uninterrupted run has them
    assert [row["frames"] for row in lines(tmp_path / "run", "metrics.jsonl")] == [15, 30, 60, 75]


def test_raised_frames_are_kept(tmp_path):
    train(run_config("toy/cue", 30), tmp_path / "run")
    resume(tmp_path / "run", frames=60)
    assert read_config(tmp_path / "run").run.frames == 60
    with pytest.raises(ConfigError, match="may only be raised: the run has 60, got 50"):
        resume(tmp_path / "run", frames=50)
    assert "finished after 60 frames" in resume(tmp_path / "run")


def test_frames_are_not_raised_if_the_run_cannot_go_on(tmp_path):
    train(run_config("toy/cue", 30), tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("*.json"):
        path.write_text("{}")
    with pytest.raises(ConfigError, match="no usable checkpoint"):
        resume(tmp_path / "run", frames=60)
    assert read_config(tmp_path / "run").run.frames == 30


def test_a_changed_configuration_is_refused_by_the_name_of_its_field(tmp_path):
    train(run_config("toy/cue", 30), tmp_path / "run")
    file = tmp_path / "run" / "config.json"
    values = json.loads(file.read_text())
    values["learner"]["learning_rate"] = 0.5
    file.write_text(json.dumps(values))
    with pytest.raises(ConfigError, match=r"learner\.learning_rate = 0.5, but .* with 0\.001"):
        resume(tmp_path / "run")


def test_a_run_without_a_checkpoint_starts_from_the_beginning(tmp_path, monkeypatch):
    train(run_config("toy/cue", 30), tmp_path / "whole")
    stopped_run(tmp_path / "run", monkeypatch, "toy/cue", num_ticks=5, frames=30)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    assert "starting from the beginning" in resume(tmp_path / "run")
    assert not difference(result(tmp_path / "whole"), result(tmp_path / "run"))


def test_a_damaged_checkpoint_is_named_and_the_run_ends_the_same(tmp_path, monkeypatch):
    train(run_config("toy/cue", 90), tmp_path / "whole")
    stopped_run(tmp_path / "run", monkeypatch, "toy/cue", num_ticks=11, frames=90)
    newest = sorted((tmp_path / "run" / "checkpoints").glob("*.state"))[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    said = resume(tmp_path / "run")
    assert f"{newest.name} has" in said
    assert "using the checkpoint before it" in said
    assert not difference(result(tmp_path / "whole"), result(tmp_path / "run"))


def test_an_old_or_foreign_state_is_one_line(tmp_path, monkeypatch):
    train(run_config("toy/cue", 30), tmp_path / "run")
    monkeypatch.setattr(Parts, "load_state_dict", lambda *_: {}["networks"])
    with pytest.raises(ConfigError, match="not written by this version"):
        resume(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("raise", "lane 0 failed to step: RuntimeError: the emulator caught fire"),
        ("exit", "lane 0 failed to step: SystemExit: 0"),
        ("nan", "observation of lane 0 is not finite"),
        ("nan reward", "reward of lane 0 is not finite"),
        ("enormous", "is not finite"),  # finite itself, but not after the networks
    ],
)
def test_a_broken_environment_is_one_line_and_resumable(name, reason, tmp_path, monkeypatch, fault):
    train(run_config(TASK, 150), tmp_path / "whole")
    stopped_run(tmp_path / "run", monkeypatch)
    fault(name)
    with pytest.raises(RunFailed, match=f"{reason}.*agent57 resume"):
        resume(tmp_path / "run")
    fault(None)
    resume(tmp_path / "run")
    assert not difference(result(tmp_path / "whole"), result(tmp_path / "run"))


def test_an_update_that_is_not_finite_leaves_its_batch_and_the_weights_before(
    tmp_path, monkeypatch, fault
):
    stopped_run(tmp_path / "run", monkeypatch)
    before = result(tmp_path / "run")
    fault("huge")
    with pytest.raises(RunFailed, match=r"not finite at update \d+: .*nonfinite_update\.pt"):
        resume(tmp_path / "run")
    saved = torch.load(tmp_path / "run" / "nonfinite_update.pt", weights_only=True)
    assert saved["batch"]["extrinsic"].max() > 1e24
    assert saved["learner"]["num_updates"] >= before["state"]["counters"]["updates"]
    for weight in saved["learner"]["networks"].values():
        assert torch.isfinite(weight).all()
    assert not difference(before["state"], result(tmp_path / "run")["state"])


def test_episodes_that_cannot_be_rebuilt_start_afresh_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setenv("AGENT57_TEST_NOISE", "1")
    stopped_run(tmp_path / "run", monkeypatch)
    said = resume(tmp_path / "run")
    assert "4 running episodes could not be rebuilt" in said
    assert "finished after 150 frames" in said


def test_a_disk_that_is_full_for_a_while_costs_a_checkpoint_and_nothing_else(tmp_path, monkeypatch):
    from agent57.storage import checkpoint

    train(run_config("toy/cue", 90), tmp_path / "whole")
    real, countdown = checkpoint.write_file, iter([False, True, True, False])

    def write(*args):
        if next(countdown, False):
            raise OSError(28, "No space left on device")
        return real(*args)

    monkeypatch.setattr(checkpoint, "write_file", write)
    config = run_config("toy/cue", 90, run={"checkpoint_seconds": 0.001})
    said = train(config, tmp_path / "run")
    assert said.count("checkpoint not written: No space left on device; training goes on") == 2
    assert not difference(result(tmp_path / "whole"), result(tmp_path / "run"))


def test_a_last_checkpoint_that_fails_is_a_failure(tmp_path, monkeypatch):
    from agent57.storage import checkpoint

    stopped_run(tmp_path / "run", monkeypatch, "toy/cue", num_ticks=5, frames=60)
    with monkeypatch.context() as patched:
        patched.setattr(
            checkpoint, "write_file", lambda *_: (_ for _ in ()).throw(OSError(28, "No space"))
        )
        with pytest.raises(RunFailed, match="No space; make room .*`agent57 resume"):
            resume(tmp_path / "run")
    assert "finished after 60 frames" in resume(tmp_path / "run")


def test_a_run_goes_on_without_blocks_that_are_lost(tmp_path, monkeypatch):
    stopped_run(tmp_path / "run", monkeypatch, "toy/cue", num_ticks=15, frames=120)
    with monkeypatch.context() as patched:
        stop_after(15, patched)
        resume(tmp_path / "run")
    segments = sorted((tmp_path / "run" / "checkpoints").glob("*.blocks"))
    segments[0].write_bytes(b"rotten")
    said = resume(tmp_path / "run")
    assert f"{segments[0].name} has 6 bytes" in said
    assert "every checkpoint is damaged: going on from" in said
    assert "finished after 120 frames" in said


def test_a_run_goes_on_with_an_empty_replay(tmp_path, monkeypatch):
    stopped_run(tmp_path / "run", monkeypatch, "toy/cue", num_ticks=15, frames=120)
    with monkeypatch.context() as patched:
        stop_after(15, patched)
        resume(tmp_path / "run")
    for path in (tmp_path / "run" / "checkpoints").glob("*.blocks"):
        path.unlink()
    assert "with the rest of its replay" in resume(tmp_path / "run")
    assert result(tmp_path / "run")["state"]["counters"]["frames"] == 120


def test_a_run_folder_that_is_removed_is_noticed(tmp_path, monkeypatch):
    stopped_run(tmp_path / "run", monkeypatch, "toy/cue", num_ticks=5, frames=60)
    with monkeypatch.context() as patched:
        at_tick(5, patched, lambda: shutil.rmtree(tmp_path / "run"))
        with pytest.raises(RunFailed, match="run was removed.*no checkpoint to go on from"):
            resume(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_journal_that_is_removed_is_noticed(tmp_path, monkeypatch):
    stopped_run(tmp_path / "run", monkeypatch, "toy/cue", num_ticks=12, frames=60)
    with monkeypatch.context() as patched:
        at_tick(5, patched, (tmp_path / "run" / "metrics.jsonl").unlink)
        with pytest.raises(RunFailed, match=r"metrics\.jsonl was removed.*agent57 resume"):
            resume(tmp_path / "run")
    assert "metrics.jsonl lacks" in resume(tmp_path / "run")


def test_checkpoints_that_are_removed_are_written_anew_under_new_names(tmp_path, monkeypatch):
    train(run_config("toy/cue", 90), tmp_path / "whole")
    stopped_run(tmp_path / "run", monkeypatch, "toy/cue", num_ticks=5, frames=90)
    folder = tmp_path / "run" / "checkpoints"
    before = {path.name for path in folder.iterdir()}
    with monkeypatch.context() as patched:
        at_tick(5, patched, lambda: shutil.rmtree(folder))
        said = resume(tmp_path / "run")
    assert "the next checkpoint is written in full" in said
    assert not before & {path.name for path in folder.iterdir()}
    assert not difference(result(tmp_path / "whole"), result(tmp_path / "run"))
    assert "finished after 90 frames" in resume(tmp_path / "run")


def test_tensorboard_events_that_are_removed_cost_nothing_else(tmp_path, monkeypatch):
    at_tick(12, monkeypatch, lambda: shutil.rmtree(tmp_path / "run" / "tensorboard"))
    assert "finished after 90 frames" in train(run_config("toy/cue", 90), tmp_path / "run")
    assert [row["frames"] for row in lines(tmp_path / "run", "metrics.jsonl")] == [30, 60, 90]
    assert list((tmp_path / "run" / "tensorboard").iterdir())


def test_the_folder_is_locked_until_the_last_write_has_ended(tmp_path, monkeypatch):
    from agent57.storage import checkpoint

    write, free, events = checkpoint.write_manifest, RunFolder.close, []

    def slow(*args):
        time.sleep(0.3)
        write(*args)
        events.append("written")

    def close(folder):
        events.append("free")
        free(folder)

    def interrupt():
        presses.extend(["third", "fourth"])  # while the run waits for the writer
        raise KeyboardInterrupt

    def impatient(store, join=CheckpointStore.join):
        if presses:
            presses.pop()
            raise KeyboardInterrupt
        join(store)

    stopped_run(tmp_path / "run", monkeypatch, "toy/cue", num_ticks=5, frames=90)
    monkeypatch.setattr(checkpoint, "write_manifest", slow)
    monkeypatch.setattr(RunFolder, "close", close)
    values = json.loads((tmp_path / "run" / "config.json").read_text())
    values["run"]["checkpoint_seconds"] = 1e-6
    (tmp_path / "run" / "config.json").write_text(json.dumps(values))
    presses = []
    monkeypatch.setattr(CheckpointStore, "join", impatient)
    at_tick(2, monkeypatch, interrupt)
    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path / "run")
    assert not presses
    assert events == ["written", "free"]


@pytest.mark.parametrize(
    "sections",
    [
        {"actor": {"lanes": 10**14}},
        {"network": {"state_size": 10**9}},
        {"network": {"head_size": 10**14}},
        {"curiosity": {"memory_size": 10**14}},
    ],
)
def test_sizes_that_do_not_fit_in_memory_are_one_line(sections, tmp_path):
    with pytest.raises(ConfigError, match="do not fit in memory"):
        train(run_config("toy/cue", 30, **sections), tmp_path / "run")


def test_memory_that_runs_out_while_training_is_one_line(tmp_path):
    config = run_config("toy/cue", 300, learner={"batch_size": 10**14})
    with pytest.raises(RunFailed, match="not enough memory: .*agent57 resume"):
        train(config, tmp_path / "run")
