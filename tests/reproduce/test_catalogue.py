from agent57.reproduce.catalogue import EXPERIMENTS


def test_every_claim_has_its_experiment() -> None:
    assert {"pong", "key-corridor", "discount", "memory", "random-coin"} <= set(EXPERIMENTS)
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())
