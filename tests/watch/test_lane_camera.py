import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from agent57.envs.make import make_env
from agent57.envs.spec import VectorEnv
from agent57.glances import glances
from agent57.player import Player
from agent57.seeds import Role
from agent57.video.lane_files import SHOWN_LANES, LaneFiles, LaneWriter
from agent57.watch import lane_camera
from agent57.watch.lane_camera import LaneCamera, as_png
from tests.runtime.cluster.stage import Play
from tests.runtime.cluster.test_conductor import cluster_config
from tests.runtime.runs import run_config

LANES = 2


def playing(
    task: str, num_steps: int, **sections: dict[str, Any]
) -> tuple[Player, VectorEnv, LaneCamera]:
    config = run_config(task, 1000, **sections)
    env = make_env(config.env, LANES)
    roles = (Role.ACTOR_EPISODES, Role.ACTOR_ACTIONS)
    player = Player(config, env, np.full(LANES, 0.3), roles, 4, torch.device("cpu"))
    assert glances(player, LANES) == []
    player.begin(np.ones(LANES, bool), np.array([1, 3]))
    for _ in range(num_steps):
        player.step()
    return player, env, LaneCamera(config.env)


def shown(picture: dict[str, str]) -> np.ndarray:
    content = base64.b64decode(picture["source"].removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(content)))


@pytest.mark.parametrize("task", ["pong", "toy/mine", "CartPole-v1"])
def test_the_picture_is_the_lane_as_it_is(task: str) -> None:
    player, env, camera = playing(task, 6)
    for more in range(2):  # the camera continues its replay
        for lane, told in enumerate(glances(player, LANES)):
            expected = shown({"source": as_png(env.render(lane))})
            (picture,) = camera.pictures([{"name": str(lane), **told}])
            np.testing.assert_array_equal(shown(picture), expected)
        if more == 0:
            player.step()
    env.close()


def test_a_glance_tells_what_the_lane_did_and_why() -> None:
    player, env, _ = playing("random_coin", 3)
    played = player.step()
    told = glances(player, LANES)[1]
    assert told["lane"] == 5
    assert told["arm"] == 3
    assert told["steps"] == 4
    assert told["action_names"] == ["up", "down", "left", "right"]
    assert told["action"] == played.action[1]
    np.testing.assert_array_equal(told["values"], played.value[:, 1])
    assert told["novelty"] * told["modulation"] == pytest.approx(float(played.intrinsic[1]))
    env.close()


def test_a_glance_names_the_best_action_by_definition() -> None:
    player, env, _ = playing("random_coin", 3)
    played = player.step()
    for lane, told in enumerate(glances(player, LANES)):
        extrinsic, intrinsic = played.value[:, lane]
        assert told["policy"] is None
        assert told["best_action"] == int(np.argmax(extrinsic + told["beta"] * intrinsic))
    env.close()


def test_a_glance_shows_the_distilled_policy_where_it_acts() -> None:
    sections = {"learner": {"policy": "distilled", "policy_temperature": 0.25}}
    player, env, _ = playing("random_coin", 3, **sections)
    played = player.step()
    for lane, told in enumerate(glances(player, LANES)):
        weights = np.exp(played.logits[lane] / 0.25)
        np.testing.assert_allclose(told["policy"], weights / weights.sum(), rtol=1e-5)
        assert told["best_action"] == int(weights.argmax())
        assert np.shape(told["values"]) == (2, 4)
    env.close()


def test_a_long_episode_is_caught_up_with_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    player, env, camera = playing("CartPole-v1", 6)
    monkeypatch.setattr(lane_camera, "TURN_STEPS", 4)
    lanes = [{"name": "a", **glances(player, 1)[0]}]
    (early,) = camera.pictures(lanes)
    (now,) = camera.pictures(lanes)
    assert early["note"] == "catching up: 2 steps behind"
    assert "note" not in now
    for picture in (early, now):
        assert shown(picture).ndim == 3
    assert (shown(early) != shown(now)).any()
    env.close()


def test_an_episode_that_cannot_be_repeated_is_not_shown() -> None:
    player, env, camera = playing("CartPole-v1", 6)
    told = {"name": "a", **glances(player, 1)[0], "score": -1.0}
    note = "no picture: a replay of this episode takes another course"
    assert camera.pictures([told]) == [{"note": note}]
    env.close()


def test_large_pictures_are_made_smaller(tmp_path: Path) -> None:
    picture = shown({"source": as_png(np.zeros((900, 600, 3), np.uint8))})
    assert picture.shape == (240, 160, 3)


def test_atari_and_minigrid_name_their_actions() -> None:
    for task, names in (("pong", "noop"), ("MiniGrid-Empty-5x5-v0", "left")):
        env = make_env(run_config(task, 100).env, 1)
        assert len(env.spec.action_names) == env.spec.num_actions
        assert env.spec.action_names[0] == names
        env.close()


def test_lanes_of_a_cluster_are_shown_as_those_of_one_process(tmp_path: Path) -> None:
    config = cluster_config(run={"frames": 200})
    play = Play(config, tmp_path)
    play.run()
    LaneFiles(tmp_path).ask()
    LaneWriter(tmp_path).show(play.cluster.lanes)
    lanes = [{"name": str(i), **lane} for i, lane in enumerate(LaneFiles(tmp_path).read())]
    num_actor_lanes = min(SHOWN_LANES["actor"], config.lanes_per_actor)
    assert [lane["source"] for lane in lanes] == ["evaluator"] + ["actor"] * num_actor_lanes
    assert all(lane["steps"] > 0 and lane["values"] for lane in lanes)
    for picture in LaneCamera(config.env).pictures(lanes):
        assert shown(picture).size


@pytest.mark.parametrize(
    "lane",
    [
        {"picture": [[300]]},
        {"picture": "x"},
        {"actions": "AA==", "dtype": {}, "episode": 1, "seed": 0},
        {"actions": "AA==", "dtype": "uint8"},
        {"actions": 5, "dtype": "uint8", "episode": 1, "seed": 0},
    ],
)
def test_a_damaged_description_is_a_note(lane: dict[str, Any]) -> None:
    camera = LaneCamera(run_config("toy/mine", 1000).env)
    (picture,) = camera.pictures([{"name": "a", **lane}])
    assert list(picture) == ["note"]
