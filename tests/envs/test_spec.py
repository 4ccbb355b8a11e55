import inspect

import pytest

from agent57.envs.atari import AtariEnv
from agent57.envs.gymnasium import GymnasiumEnv
from agent57.envs.rules import RulesEnv
from agent57.envs.spec import EnvironmentFault, VectorEnv
from agent57.types import EnvSpec


@pytest.mark.parametrize("kind", [AtariEnv, GymnasiumEnv, RulesEnv])
def test_environments_offer_the_contract(kind):
    for name, method in inspect.getmembers(VectorEnv, inspect.isfunction):
        if not name.startswith("_"):
            offered = inspect.signature(getattr(kind, name))
            assert offered == inspect.signature(method)


def test_a_fault_is_no_configuration_error():
    assert issubclass(EnvironmentFault, RuntimeError)
    assert not issubclass(EnvironmentFault, ValueError)


@pytest.mark.parametrize(
    ("shape", "dtype", "size"), [((1, 8, 9), "uint8", 72), ((3,), "float32", 12)]
)
def test_bytes_of_an_observation_by_hand(shape, dtype, size):
    spec = EnvSpec(
        name="x",
        kind="vector",
        observation_shape=shape,
        observation_dtype=dtype,
        num_actions=2,
        frames_per_step=1,
    )
    assert spec.observation_bytes == size
