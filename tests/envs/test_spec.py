import inspect

import pytest

from agent57.envs.atari import AtariEnv
from agent57.envs.gymnasium import GymnasiumEnv
from agent57.envs.rules import RulesEnv
from agent57.envs.spec import EnvironmentFault, VectorEnv


@pytest.mark.parametrize("kind", [AtariEnv, GymnasiumEnv, RulesEnv])
def test_environments_offer_the_contract(kind):
    for name, method in inspect.getmembers(VectorEnv, inspect.isfunction):
        if not name.startswith("_"):
            offered = inspect.signature(getattr(kind, name))
            assert offered == inspect.signature(method)


def test_a_fault_is_no_configuration_error():
    assert issubclass(EnvironmentFault, RuntimeError)
    assert not issubclass(EnvironmentFault, ValueError)
