import pytest
import torch

from agent57.compilation import compiled, has_compiler
from agent57.config import ConfigError

CPU, GPU = torch.device("cpu"), torch.device("cuda")


def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)


def test_off_and_auto_on_a_cpu_are_the_plain_function() -> None:
    assert compiled(double, "off", GPU) is double
    assert compiled(double, "auto", CPU) is double


@pytest.mark.usefixtures("no_compiler")
def test_on_without_a_compiler_is_an_error() -> None:
    assert not has_compiler()
    with pytest.raises(ConfigError, match=r"learner\.compile"):
        compiled(double, "on", CPU)


@pytest.mark.usefixtures("no_compiler")
def test_auto_without_a_compiler_is_a_message() -> None:
    with pytest.warns(UserWarning, match="uncompiled"):
        assert compiled(double, "auto", GPU) is double


def test_auto_falls_back_once_where_compiling_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.exc import TorchDynamoException

    attempts = []

    def broken(_function: object, **_: object) -> object:
        def attempt(_x: torch.Tensor) -> torch.Tensor:
            attempts.append(1)
            raise TorchDynamoException("no Triton here")

        return attempt

    monkeypatch.setattr(torch, "compile", broken)
    monkeypatch.setattr("agent57.compilation.has_compiler", lambda: True)
    function = compiled(double, "auto", GPU)
    with pytest.warns(UserWarning, match="no Triton here"):
        assert function(torch.ones(())) == 2
    assert function(torch.ones(())) == 2
    assert len(attempts) == 1
