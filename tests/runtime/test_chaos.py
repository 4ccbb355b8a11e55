"""The short form of `trials/chaos.py`: one try of a few kinds, on real runs."""

import pytest

from trials import chaos


@pytest.mark.parametrize("kind", ["kill", "damage", "forged", "stranger", "cluster_ray"])
def test_promises_hold(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert chaos.main(["--rounds", "1", "--only", kind, "--seed", "1"]) == 0, capsys.readouterr()
