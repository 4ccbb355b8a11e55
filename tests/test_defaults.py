import pytest

from agent57.config import ConfigError, Kind
from agent57.defaults import default_config, observation_kind
from agent57.presets import difference, make_config


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        ("montezuma_revenge", "pixels"),
        ("random_coin", "grid"),
        ("MiniGrid-Empty-5x5-v0", "grid"),
        ("CartPole-v1", "vector"),
        ("toy/chain", "vector"),
    ],
)
def test_the_environment_tells_the_kind_of_observation(env: str, kind: Kind) -> None:
    assert observation_kind(env) == kind
    config = default_config(env, "ngu", "laptop")
    assert set(difference(config, make_config("ngu", "laptop", kind))) <= {"env.name"}
    assert (config.env.name, config.run.kind) == (env, kind)


@pytest.mark.parametrize(
    ("env", "agent", "scale", "message"),
    [
        ("CartPole-v9", "agent57", "laptop", "did you mean CartPole"),
        ("CartPole-v9", "agent58", "laptop", "--agent 'agent58'"),
        ("CartPole-v9", "agent57", "desk", "--scale 'desk'"),
    ],
)
def test_a_wrong_name_is_refused(env: str, agent: str, scale: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        default_config(env, agent, scale)
