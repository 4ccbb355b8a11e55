import base64
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agent57.watch.painter import Painter
from tests.runtime.runs import run_config

ACTIONS = base64.b64encode(bytes([0, 1, 0])).decode()
LANE = {"name": "a", "episode": 1, "seed": 3, "dtype": "uint8", "actions": ACTIONS, "score": 3.0}


def test_another_process_draws_and_is_replaced_when_it_dies() -> None:
    config = run_config("CartPole-v1", 100).env
    painter = Painter()
    try:
        seconds, (picture,) = painter.draw(config, [LANE])
        assert seconds > 0
        assert picture["source"].startswith("data:image/png")
        painter.end()
        assert painter.draw(config, [LANE])[1] == [{"note": "the picture could not be drawn"}]
        assert "source" in painter.draw(config, [LANE])[1][0]
    finally:
        painter.close()


def test_a_module_that_is_not_installed_is_drawn_if_it_is_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "painted.py").write_text("from gymnasium.envs.classic_control import CartPoleEnv\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    config = replace(run_config("CartPole-v1", 100).env, name="painted:CartPoleEnv")
    for trust in (False, True):
        painter = Painter(trust=trust)
        try:
            (picture,) = painter.draw(config, [LANE])[1]
        finally:
            painter.close()
        assert "source" in picture if trust else "give --trust" in picture["note"]


@pytest.mark.parametrize("module", ["watch.server", "watch.lane_camera"])
def test_pages_and_pictures_are_made_without_torch(module: str) -> None:
    code = f"import sys, agent57.{module}; print('torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"
