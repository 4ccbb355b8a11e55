from agent57.experiments.catalogue import EXPERIMENTS


def test_every_claim_has_its_experiment() -> None:
    assert list(EXPERIMENTS) == [
        "pong", "key-corridor", "discount", "memory", "random-coin", "exploration-bandit",
        "hard-exploration", "meme",
    ]  # fmt: skip
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())
