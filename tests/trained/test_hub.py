"""Policies on the Hub, with a folder in place of the network."""

import inspect
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agent57
from agent57.trained.hub import HubClient, load_from_hub, model_card, push_to_hub
from agent57.trained.trained_run import TrainedRun
from tests.trained_run import trained_run


class Shelf:
    """A hub client that stores files in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def create_repo(self, repo_id: str, *, private: bool | None, exist_ok: bool) -> None:
        (self.root / repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def upload_folder(self, *, repo_id: str, folder_path: str, commit_message: str) -> None:
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True)
        (self.root / repo_id / ".message").write_text(commit_message)

    def hf_hub_download(self, repo_id: str, filename: str, *, revision: str | None) -> str:
        return str(self.root / repo_id / filename)


def test_a_policy_comes_back_from_the_hub_as_it_went(tmp_path: Path) -> None:
    run = agent57.Run(trained_run())
    shelf = Shelf(tmp_path)
    push_to_hub(run.path, "someone/chain", evaluation=run.evaluate(3), client=shelf)
    names = {path.name for path in (tmp_path / "someone/chain").iterdir()}
    assert names == {"policy.agent57", "config.json", "README.md", ".message"}

    ours, theirs = run.policy(arm=2), load_from_hub("someone/chain", arm=2, client=shelf)
    rows = np.random.default_rng(0).random((6, *ours.spec.observation_shape)).astype(np.float32)
    mine, other = ours.initial_state(), theirs.initial_state()
    for row in rows:
        assert ours.act(row, mine)[0] == theirs.act(row, other)[0]
        assert mine.decision is not None
        assert other.decision is not None
        assert (mine.decision.outputs == other.decision.outputs).all()


def test_the_card_says_what_was_measured_and_nothing_else() -> None:
    run = TrainedRun.load(trained_run())
    evaluation = agent57.Run(run.path).evaluate(4, seed=7)
    card = model_card(run, "someone/chain", evaluation)
    _, head, body = card.split("---\n", 2)
    result = json.loads(head)["model-index"][0]["results"][0]
    assert result["dataset"]["name"] == "toy/chain"
    assert result["metrics"][0]["value"].startswith(f"{evaluation['return_mean']:.2f}")
    assert "over 4 episodes" in body
    assert "seed 7" in body
    bare = model_card(run, "someone/chain", None)
    assert json.loads(bare.split("---\n", 2)[1])["model-index"][0]["results"] == []
    assert "not evaluated" in bare


def test_without_the_client_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(agent57.ConfigError, match=r"pip install 'agent57\[hub\]'"):
        load_from_hub("someone/chain")


def test_the_real_client_takes_what_is_given_to_it() -> None:
    hub: Any = pytest.importorskip("huggingface_hub")
    for name in ("create_repo", "upload_folder", "hf_hub_download"):
        ours = inspect.signature(getattr(HubClient, name)).parameters
        theirs = inspect.signature(getattr(hub.HfApi, name)).parameters
        assert set(ours) <= set(theirs), name
