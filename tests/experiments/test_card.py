import os
import re
import socket
from pathlib import Path

from agent57 import __version__
from agent57.experiments.card import data_name, git_commit, machine, write_card, write_weights_card
from tests.experiments.made_up import experiment, outcome


def test_a_card_says_what_was_run_on_what_and_what_came_out(tmp_path: Path) -> None:
    made = experiment()
    results = {"ours": [outcome()], "theirs, joint": [outcome("theirs, joint", score=0.25)]}
    verdicts = [criterion.judge(results) for criterion in made.criteria]
    file = tmp_path / "README.md"
    write_card(file, made, "minutes", results, verdicts, ["curve"], "none")
    text = file.read_text()
    for part in (
        "Claim of the paper: ours is better.",
        "- **pass**: ours: mean return at least 0: 0.9",
        "- **FALLS SHORT**: theirs: mean return at most -1: 0.25",
        "`agent57 reproduce made-up --budget minutes --seeds 1`",
        "300 frames a run, seeds 0",
        "- training time, summed over runs: 2 min 00 s",
        f"- machine: {machine()}",
        f"agent57 {__version__}, commit abc",
        "![curve](curve.png)",
        "| theirs, joint | 0 | 0.25 | 0.8 | 0 (beta 0, gamma 0.99) | 400 | 1 min 00 s |",
        "| ours | 1 | 0.3 | 0.9 | 0.3 |",
        "learner.batch_size 5 (default 16)",
        "--frames 300",
        "--learner.batch_size 5",
        "`agent57 presets agent57 --scale tiny --env toy/bandit`",
    ):
        assert part in text, part


def test_a_card_names_neither_the_machine_nor_its_folders(tmp_path: Path) -> None:
    made = experiment()
    results = {"ours": [outcome(folder=tmp_path)], "theirs, joint": [outcome()]}
    write_card(tmp_path / "README.md", made, "minutes", results, [], [], "none")
    text = (tmp_path / "README.md").read_text()
    assert str(tmp_path) not in text
    assert socket.gethostname() not in text


def test_a_card_made_anew_keeps_the_notes_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    (tmp_path / "NOTES.md").write_text("## What this shows\n\nLoops.\n")
    for _ in range(2):
        write_card(file, experiment(), "minutes", {"ours": [outcome()]}, [], [], "none")
    assert file.read_text().endswith("\n\n## What this shows\n\nLoops.\n")
    assert file.read_text().count("Loops.") == 1


def test_the_machine_is_its_cores_processor_and_memory() -> None:
    assert re.fullmatch(rf"{os.cpu_count()} cores, .+, \d+ GB", machine())


def test_the_commit_is_that_of_the_code_or_unknown() -> None:
    assert re.fullmatch(r"[0-9a-f]{10}(\+changes)?|unknown", git_commit())


def test_weights_have_a_card_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    write_weights_card(file, experiment(), outcome(seed=2), 0.875)
    text = file.read_text()
    for part in ("`toy/bandit`", "mean return: 0.875 with arm 0", "--seed 2", "commit abc"):
        assert part in text


def test_data_files_are_named_after_the_experiment() -> None:
    assert data_name(experiment()) == "made_up.csv"
