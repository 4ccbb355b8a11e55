"""Checks docs/results: every experiment is in the index, and every result has a card."""

import re

from agent57.experiments.catalogue import EXPERIMENTS
from agent57.trained.policy_file import read_trained
from tests.house.names import ROOT

RESULTS = ROOT / "docs" / "results"
FOLDERS = sorted(path for path in RESULTS.iterdir() if path.is_dir())
MAX_BYTES = 20_000_000  # of all files of weights together


def index() -> dict[str, str]:
    """Return the rows of the table of results, by experiment."""
    text = (RESULTS / "README.md").read_text().partition("\n## ")[0]
    rows = re.findall(r"^\| ([a-z-]+) \|(.*)\|$", text, re.M)
    return {name: row for name, row in rows if name != "experiment"}


def test_every_experiment_is_in_the_index_with_its_claim() -> None:
    assert list(index()) == list(EXPERIMENTS)
    for name, row in index().items():
        claim = EXPERIMENTS[name].claim.partition(":")[0].partition(" (")[0]
        assert claim in row


def test_the_index_calls_run_what_has_a_card_and_nothing_else() -> None:
    run = {name for name, row in index().items() if "not run yet" not in row}
    assert run == {path.name for path in FOLDERS if path.name in EXPERIMENTS}
    for path in FOLDERS:
        assert (path / "README.md").is_file(), path


def test_weights_can_be_loaded_and_stay_small() -> None:
    weights = [path / "weights" for path in FOLDERS if (path / "weights").is_dir()]
    found = [file for path in weights for file in path.rglob("*") if file.is_file()]
    files = [file for file in found if file.parent.name != "videos"]  # films of `evaluate`
    policies = [file for file in files if file.suffix == ".agent57"]
    folders = [path for path in weights if path / "config.json" in files]
    assert policies
    assert folders
    for file in policies:  # a result of several tasks has one file for each, and one card
        assert read_trained(file).config.env.name == file.stem
        assert file.stem in (file.parents[1] / "README.md").read_text()
    for path in folders:
        assert read_trained(path).config.env.name in (path / "README.md").read_text()
    assert sum(file.stat().st_size for file in files) < MAX_BYTES
