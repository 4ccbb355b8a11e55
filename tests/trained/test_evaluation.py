import json
import os
import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from PIL import Image

import agent57
from agent57.envs.make import make_env
from agent57.glances import distilled_policy
from agent57.player import Player
from agent57.seeds import Role
from agent57.trained.evaluation import Film, play_episodes
from agent57.trained.trained_run import TrainedRun
from agent57.video.film import GifWriter, Mp4Writer, even
from agent57.video.overlay import MIN_HEIGHT, PANEL, Overlay, enlarge
from tests.runtime.runs import run_config
from tests.trained_run import call, trained_run


def test_the_table_and_the_json_say_the_same(tmp_path):
    code, text = call(
        "evaluate", trained_run(), "--episodes", 6, "--arm", 1, "--json", tmp_path / "a.json"
    )
    assert code == 0, text
    result = json.loads((tmp_path / "a.json").read_text())
    assert result["num_episodes"] == len(result["returns"]) == 6
    assert result["return_mean"] == pytest.approx(np.mean(result["returns"]))
    assert result["arm"] == 1
    assert f"beta {result['beta']:.4g}" in text
    assert "hns" not in result  # there is no human score on a toy


def test_one_episode_has_no_deviation():
    assert "±" in call("evaluate", trained_run(), "--episodes", 2)[1]
    assert "±" not in call("evaluate", trained_run(), "--episodes", 1)[1]


def test_the_same_seed_gives_the_same_episodes(tmp_path):
    def returns(name, *more):
        file = tmp_path / name
        code, text = call("evaluate", trained_run(), "--episodes", 8, "--json", file, *more)
        assert code == 0, text
        result = json.loads(file.read_text())
        return result["returns"], result["lengths"]

    often_random = ("--epsilon", 0.9)
    assert returns("a", *often_random) == returns("b", *often_random)
    assert returns("a", *often_random) != returns("c", *often_random, "--seed", 1)


def test_short_episodes_are_not_preferred():
    run = TrainedRun.load(trained_run())
    env = make_env(run.config.env, 3)
    player = run.make_player(env, 0.9, seed=3, device=torch.device("cpu"))
    episodes = play_episodes(player, env, 0, 5)
    assert len(episodes) == 5
    assert {episode.phase for episode in episodes} == {"evaluate"}
    assert [episode.lane for episode in episodes[:3]] == [0, 1, 2]


def test_a_film_shows_the_distilled_policy(tmp_path):
    class Seen(Overlay):
        policies: ClassVar[list] = []

        def draw(self, picture, played, novelty, policy=None):
            self.policies.append((played, policy))
            return super().draw(picture, played, novelty, policy)

    config = run_config("random_coin", 100, learner={"policy": "distilled"})
    env = make_env(config.env, 2)
    roles = (Role.EVALUATOR_EPISODES, Role.EVALUATOR_ACTIONS)
    player = Player(config, env, np.full(2, 0.01), roles, 0, torch.device("cpu"))
    film = Film(tmp_path / "film.gif", Seen("a", "b"))
    play_episodes(player, env, 0, 1, film=film)
    film.close()
    assert Seen.policies
    for played, policy in Seen.policies:
        np.testing.assert_array_equal(policy, distilled_policy(player, played)[0])
        assert policy.sum() == pytest.approx(1)


@pytest.mark.parametrize("overlay", ["--overlay", "--no-overlay"])
@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_films_an_episode_and_keeps_it_in_the_run(tmp_path, suffix, overlay):
    file = tmp_path / f"film{overlay}.{suffix}"
    code, text = call("evaluate", trained_run(), "--episodes", 2, "--video", file, overlay)
    assert code == 0, text
    assert (trained_run() / "videos" / file.name).read_bytes() == file.read_bytes()
    width, height = _size(file)
    bare_width, bare_height = _bare_size()
    if overlay == "--overlay":
        assert width == bare_width + PANEL
        assert height >= MIN_HEIGHT
    else:
        assert (width, height) == (bare_width, bare_height)
    assert width % 2 == height % 2 == 0


def _bare_size():
    """Return the size of the game's picture in a film without the panel."""
    env = make_env(TrainedRun.load(trained_run()).config.env, 1)
    env.reset(np.ones(1, bool), np.zeros(1, np.int64))
    height, width = even(enlarge(env.render(0))).shape[:2]
    return width, height


def _size(file):
    if file.suffix == ".gif":
        with Image.open(file) as image:
            assert image.n_frames > 1
            return image.size
    import imageio_ffmpeg

    frames = imageio_ffmpeg.read_frames(str(file))
    size = next(frames)["size"]
    frames.close()
    return size


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--video", "x.avi"), "--video x.avi must end in .mp4 or .gif"),
        (("--video", "/nowhere/x.gif"), "the folder /nowhere does not exist"),
        (("--video", "/proc/x.gif"), "--video /proc/x.gif cannot be written"),
        (("--video", f"{'x' * 300}.gif"), "cannot be written: File name too long"),
        (("--json", "x" * 300), "cannot be written: File name too long"),
        (("--episodes", "0"), "--episodes must be positive"),
        (("--episodes", "1e400"), "--episodes must be below 10^15"),
        (("--epsilon", "2"), "--epsilon must lie in [0, 1]"),
        (("--arm", "4"), "--arm must lie in 0 to 3"),
        (("--seed", "-1"), "--seed must not be negative"),
        (("--device", "nonsense"), "--device nonsense cannot be used"),
    ],
)
def test_bad_options_are_answered_in_one_line(options, message):
    code, text = call("evaluate", trained_run(), *options)
    assert code == 2
    assert message in text
    assert text.count("\n") == 1


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "pipe"])
def test_a_film_is_written_to_a_plain_file_only(make, tmp_path):
    make(tmp_path / "x.gif")
    code, text = call("evaluate", trained_run(), "--video", tmp_path / "x.gif")
    assert code == 2
    assert "cannot be written: it is" in text


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_a_film_that_the_disk_refuses_is_one_line(suffix, tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(GifWriter, "close", refuse)
    monkeypatch.setattr(Mp4Writer, "add", refuse)
    code, text = call("evaluate", trained_run(), "--video", tmp_path / f"x{suffix}")
    assert code == 2
    assert "cannot be written: No space left on device" in text


def test_missing_ffmpeg_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    code, text = call("evaluate", trained_run(), "--video", tmp_path / "x.mp4")
    assert code == 2
    assert "pip install 'agent57[report]'" in text


def test_an_older_checkpoint_is_not_used_in_silence(tmp_path):
    shutil.copytree(trained_run(), tmp_path / "run")
    newest = sorted((tmp_path / "run" / "checkpoints").glob("*.state"))[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    code, text = call("evaluate", tmp_path / "run", "--episodes", 1)
    assert code == 0
    assert f"{newest.name} has" in text
    assert "using the checkpoint before it" in text
    with pytest.warns(RuntimeWarning, match="using the checkpoint before it"):
        agent57.load(tmp_path / "run")
    code, text = call("export", tmp_path / "run", "--weights", tmp_path / "a.agent57")
    assert code == 0
    assert "using the checkpoint before it" in text


def test_a_run_that_cannot_keep_a_film_is_no_reason_to_fail(tmp_path):
    shutil.copytree(trained_run(), tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "videos", ignore_errors=True)
    (tmp_path / "run" / "videos").write_text("not a folder, as good as a read-only one")
    film = tmp_path / "film.gif"
    code, text = call("evaluate", tmp_path / "run", "--episodes", 1, "--video", film)
    assert code == 0, text
    assert "no copy of the video for the report" in " ".join(text.split())
    assert film.stat().st_size


def test_an_edited_configuration_is_refused(tmp_path):
    shutil.copytree(trained_run(), tmp_path / "run")
    file = tmp_path / "run" / "config.json"
    values = json.loads(file.read_text())
    values["evaluator"]["epsilon"] = 0.5
    file.write_text(json.dumps(values))
    code, text = call("evaluate", tmp_path / "run", "--episodes", 1)
    assert code == 2
    assert "evaluator.epsilon = 0.5, but the run was trained with" in text


def test_brackets_in_a_path_are_not_markup(tmp_path):
    path = tmp_path / "x[" / "red]"
    shutil.copytree(trained_run(), path)
    for command in ("evaluate", "report", "export"):
        extra = {"evaluate": ("--episodes", 1, "--video", path / "a.gif", "--json", path / "a"),
                 "export": ("--csv", path / "a.csv")}.get(command, ())  # fmt: skip
        code, text = call(command, path, *extra)
        assert code == 0, text
    assert call("resume", path, "--frames", 601)[0] == 0
