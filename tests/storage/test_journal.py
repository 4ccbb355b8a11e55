"""The journal: averages between two lines, episodes as they end, and resumed sessions."""

import json
import mmap
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agent57.config import Config
from agent57.storage.events import EventFile
from agent57.storage.folder import RunFolder
from agent57.storage.journal import RECENT_EPISODES, STATM, Journal
from agent57.storage.means import Means
from agent57.types import Episode


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", Config())


def lines(folder: RunFolder, name: str) -> list[dict]:
    folder.flush()
    return [json.loads(line) for line in (folder.path / name).read_text().splitlines()]


def counters(frames: int) -> dict[str, int]:
    return {"frames": frames, "steps": frames // 4, "updates": frames // 40}


def episode(episode_return: float, source: str = "actor") -> Episode:
    return Episode(
        source=source, phase="train", lane=2, arm=3, beta=0.1, gamma=0.99, frames=40, length=10,
        episode_return=episode_return, intrinsic_return=5.0,
    )  # fmt: skip


def test_a_line_holds_counters_averages_and_the_latest_values(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    journal.add({"loss": 1.0})
    journal.add({"loss": 3.0, "norm": 5.0})
    row = journal.write(counters(120), {"evaluator/return": 7.0, "unknown": None})
    assert row == journal.latest == lines(folder, "metrics.jsonl")[0]
    assert (row["frames"], row["steps"], row["updates"]) == (120, 30, 3)
    assert (row["loss"], row["norm"], row["evaluator/return"]) == (2.0, 5.0, 7.0)
    assert "unknown" not in row
    assert row["seconds"] > 0


def test_averages_start_anew_after_a_line(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    journal.add({"loss": 1.0})
    journal.write(counters(100), {})
    journal.add({"loss": 9.0})
    assert journal.write(counters(200), {})["loss"] == 9.0
    assert "loss" not in journal.write(counters(300), {})


def test_lines_are_due_every_log_frames(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    assert not journal.is_due(99)
    assert journal.is_due(100)
    journal.write(counters(130), {})
    assert not journal.is_due(199)
    assert journal.is_due(200)
    journal.write(counters(450), {})  # late: no burst of lines follows
    assert not journal.is_due(499)
    assert journal.is_due(500)


def test_the_rate_is_that_since_the_last_line(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    first = journal.write(counters(100), {})
    second = journal.write(counters(300), {})
    elapsed = second["seconds"] - first["seconds"]
    assert second["frames_per_second"] == pytest.approx(200 / elapsed)


@pytest.mark.skipif(not STATM.exists(), reason="the system does not say")
def test_every_line_tells_how_much_memory_the_process_holds(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    before = journal.write(counters(100), {})["memory/resident_bytes"]
    held = np.frombuffer(mmap.mmap(-1, 100 << 20), np.uint8)  # new pages, not memory that was freed
    held[:] = 1
    grown = journal.write(counters(200), {})["memory/resident_bytes"] - before
    assert 0.9 * held.nbytes < grown < 1.2 * held.nbytes


def test_where_the_system_does_not_say_lines_go_without_the_memory(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent57.storage.journal.STATM", Path("/not/there"))
    assert "memory/resident_bytes" not in Journal(folder, 100).write(counters(100), {})


def test_episodes_are_written_as_the_contract_names_them(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    journal.add_episode(episode(12.0))
    assert lines(folder, "episodes.jsonl") == [
        {
            "source": "actor", "phase": "train", "lane": 2, "arm": 3, "beta": 0.1, "gamma": 0.99,
            "frames": 40, "length": 10, "return": 12.0, "intrinsic_return": 5.0,
        }
    ]  # fmt: skip


def test_the_episode_return_is_the_mean_of_the_actors_recent_ones(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    assert "episode/return" not in journal.write(counters(100), {})
    for value in range(RECENT_EPISODES + 5):
        journal.add_episode(episode(float(value)))
        journal.add_episode(episode(1000.0, source="evaluator"))
    mean = sum(range(5, RECENT_EPISODES + 5)) / RECENT_EPISODES
    assert journal.write(counters(200), {})["episode/return"] == mean


def test_goes_on_from_its_saved_state_and_forgets_what_came_after(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    journal.add({"loss": 1.0})
    journal.write(counters(100), {})
    journal.add({"loss": 4.0})
    journal.add_episode(episode(12.0))
    state = journal.state_dict()
    journal.add({"loss": 100.0})
    journal.add_episode(episode(99.0))
    journal.write(counters(200), {})
    journal.close()

    resumed = Journal(folder, log_frames=100)
    resumed.load_state_dict(state)
    assert [row["frames"] for row in lines(folder, "metrics.jsonl")] == [100]
    assert [row["return"] for row in lines(folder, "episodes.jsonl")] == [12.0]
    assert resumed.latest["frames"] == 100
    assert not resumed.is_due(199)
    row = resumed.write(counters(200), {})
    assert row["loss"] == 4.0
    assert row["episode/return"] == 12.0
    assert resumed.seconds >= state["seconds"]


def test_scalars_go_to_tensorboard(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    journal.add({"loss/extrinsic": 2.5})
    journal.write(counters(100), {})
    journal.close()
    events = list((folder.path / "tensorboard").iterdir())
    assert len(events) == 1
    assert b"loss/extrinsic" in events[0].read_bytes()


def test_a_mean_is_over_the_times_something_was_given(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    for scalars in ({"td/0": 2.0}, {"td/0": 4.0, "td/1": 7.0}, {}):
        journal.add(scalars)
    row = journal.write(counters(100), {})
    assert (row["td/0"], row["td/1"]) == (3.0, 7.0)
    assert "td/2" not in row


def test_actors_episodes_are_averaged_per_arm_between_lines(folder: RunFolder) -> None:
    journal = Journal(folder, log_frames=100)
    journal.add_episode(episode(1.0))
    journal.add_episode(replace(episode(1.0), intrinsic_return=9.0, length=20))
    journal.add_episode(replace(episode(1.0), intrinsic_return=100.0, arm=1, length=60))
    journal.add_episode(replace(episode(1.0), intrinsic_return=999.0, source="evaluator"))
    row = journal.write(counters(100), {})
    assert row["arm_intrinsic_return/3"] == 7.0
    assert row["arm_intrinsic_return/1"] == 100.0
    assert "arm_intrinsic_return/0" not in row
    assert row["episode/length"] == 30.0
    assert "arm_intrinsic_return/3" not in journal.write(counters(200), {})


def test_means_are_over_the_times_a_scalar_was_given():
    means = Means()
    means.add({"a": 1.0, "b": 5.0})
    means.add({"a": 3.0})
    assert means.means() == {"a": 2.0, "b": 5.0}


def test_means_go_on_from_their_state_and_begin_anew():
    means, copy = Means(), Means()
    means.add({"a": 1.0})
    copy.load_state_dict(means.state_dict())
    copy.add({"a": 4.0})
    assert copy.means() == {"a": 2.5}
    assert means.means() == {"a": 1.0}
    means.clear()
    assert means.means() == {}


def test_a_resumed_session_replaces_what_came_after_its_checkpoint(tmp_path):
    first = EventFile(tmp_path, 1)
    for frames in (10, 20, 30):
        first.write({"loss": frames / 10, "frames": frames}, frames)
    first.close()
    second = EventFile(tmp_path, 11)
    second.write({"loss": 9.0}, 20)
    second.close()
    curves = EventAccumulator(str(tmp_path))
    curves.Reload()
    points = [(point.step, point.value) for point in curves.Scalars("loss")]
    assert points == [(10, 1.0), (20, 9.0)]
