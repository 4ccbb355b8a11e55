"""The command line with bad input: it prints one line that names the field and the fix, returns
exit code 2, and creates nothing.
"""

import io
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from gymnasium import spaces
from rich.console import Console

from agent57.cli import COMMANDS, run
from agent57.commands.train import configured
from agent57.config import Config, to_dict
from agent57.storage.folder import CONFIG_FILE, RunFolder


class Sensors(gymnasium.Env):
    """A dict of observations, one of them text."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict({"speed": spaces.Box(0, 1, (2,)), "note": spaces.Text(9)})


class Levers(gymnasium.Env):
    """Several discrete actions at once."""

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode

    action_space = spaces.MultiDiscrete([16, 16, 16])
    observation_space = spaces.Box(0, 1, (2,))


gymnasium.register("test_cli/Sensors-v0", Sensors)
gymnasium.register("test_cli/Levers-v0", Levers)


def call(*args: str) -> tuple[int, str, str]:
    """Run a command; return its exit code, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    code = run(list(args), Console(file=output, width=200), Console(file=errors, width=80))
    return code, output.getvalue(), errors.getvalue()


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


TINY = ("--scale", "tiny", "--env", "toy/chain")
WRONG = [
    (("--env", "montezumas_revenge"), "env.name 'montezumas_revenge'", "montezuma_revenge"),
    (("--env", "CartPole-v9"), "env.name 'CartPole-v9'", "did you mean CartPole"),
    (("--env", "qqqqq"), "env.name 'qqqqq'", "give a paper game such as pong"),
    (("--env", "Pendulum-v1"), "Box actions", "wrap it to offer a Discrete choice of actions"),
    (("--env", "test_cli/Levers-v0"), "4,096 combined actions", "wrap it"),
    (("--env", "test_cli/Sensors-v0"), "part 'note' of its observation is text", "--env.observe"),
    (("--env", "highway-v0"), "env.name 'highway-v0'", "package:id"),
    (("--evn", "pong"), "unknown option --evn", "did you mean --env?"),
    (("--env-kwargs", "size"), "--env-kwargs takes name=value", "got 'size'"),
    (("--env-kwargs", "size=5"), "env.kwargs has no effect on toy/chain", "leave it"),
    (("--wrapper", "nothing"), "env.wrapper must be module:function", "nothing"),
    (("--device", "mps"), "--device mps cannot be used here", "choose one of auto, cpu"),
    (("--device", "meta"), "--device meta cannot be used here", "choose one of auto, cpu"),
    (("--agent", "agent58"), "--agent 'agent58'", "agent57"),
    (("--scale", "huge"), "--scale 'huge'", "paper, laptop, desktop, tiny"),
    (("--device", "gpu"), "--device gpu cannot be used", "choose one of auto"),
    (("--frames", "0"), "run.frames must be positive", "0"),
    (("--frames", "-5"), "run.frames must be positive", "-5"),
    (("--seed", "-1"), "run.seed must not be negative", "-1"),
    (("--actor.lanes", "0"), "actor.lanes must be positive", "got 0"),
    (("--actors", "2"), "--actors is for --runtime cluster", ""),
    (("--ray-address", "x:1"), "--ray-address is for --runtime cluster", ""),
    (("--cluster.shards=2",), "--cluster.shards is for --runtime cluster", ""),
    (
        ("--runtime", "cluster", "--actors", "2", "--cluster.actors", "4"),
        "--cluster.actors is settled by --actors",
        "use that",
    ),
    (
        ("--runtime", "cluster", "--ray-address", "x:1", "--cluster.ray_address", "y:1"),
        "--cluster.ray_address is settled by --ray-address",
        "use that",
    ),
    (("--runtime", "cluster", "--actors", "0"), "--actors must be positive", "got 0"),
    (("--runtime", "cluster", "--lanes-per-actor", "-1"), "--lanes-per-actor must be", "got -1"),
    (("--runtime", "cluster", "--actors", "3"), "actor.lanes must be a multiple", "--lanes-per"),
    (
        ("--runtime", "cluster", "--lanes-per-actor", "2", "--actor.lanes=8"),
        "--actor.lanes is settled by --lanes-per-actor",
        "use that",
    ),
    (("--runtime", "cluster", "--cluster.shards", "9"), "cluster.shards must not exceed", "got 9"),
    (("--runtime", "cluster", "--ray-address", "127.0.0.1:9"), "nothing answers", "ray start"),
    (("--runtime", "clutser"), "--runtime", "clutser"),
    (("--learner.batch_size", "-3"), "learner.batch_size must be positive", "got -3"),
    (("--network.state_size", "0"), "network.state_size must be positive", "got 0"),
    (("--replay.capacity", "10"), "replay.capacity must hold two windows", "got 10"),
    (("--sequence.trace_length", "25"), "multiple of sequence.replay_period (10)", "got 25"),
    (("--family.max-gamma", "1.5"), "family.max_gamma must lie in (0, 1)", "got 1.5"),
    (("--family.max_gamma", "0"), "family.max_gamma must lie in (0, 1)", "got 0"),
    (("--family.max-beta", "-0.3"), "family.max_beta must not be negative", "-0.3"),
    (("--family.betas", "0", "0.1"), "family.betas must hold one value per arm (4)", "got 2"),
    (("--env.sticky-actions", "2"), "env.sticky_actions must lie in [0, 1]", "got 2"),
    (("--env.sticky-actions", "0.25"), "env.sticky_actions has no effect on toy/chain", "at 0.0"),
    (("--env", "pong", "--env.parallel", "async"), "env.parallel has no effect on pong", "at sync"),
    (("--learner.transform", "identity", "--learner.mixture", "h"), "learner.mixture", "set"),
    (("--agent", "ngu", "--learner.mixture", "h"), "learner.mixture h", "set network.values"),
    (("--famly.arms", "4"), "unknown option --famly.arms", "did you mean --family.arms?"),
    (("--run.agent", "ngu"), "--run.agent is settled by --agent", "use that"),
    (("--run.scale=paper",), "--run.scale is settled by --scale", "use that"),
    (("--run.frames", "100"), "--run.frames is settled by --frames", "use that"),
    (("--frames", "200", "--run.frames=100"), "--run.frames is settled by --frames", "use that"),
    (("--run.seed", "1"), "--run.seed is settled by --seed", "use that"),
    (("--run.device", "cpu"), "--run.device is settled by --device", "use that"),
    (("--run.runtime", "cluster"), "--run.runtime is settled by --runtime", "use that"),
    (("--runtime", "cluster", "--run.runtime", "inline"), "--run.runtime", "settled by --runtime"),
    (("--env.name", "pong"), "--env.name is settled by --env", "use that"),
    (("--actor.lnes", "4"), "unknown option --actor.lnes", "did you mean --actor.lanes?"),
]


@pytest.mark.parametrize(("args", "field", "fix"), WRONG)
def test_bad_settings_are_one_line_and_leave_nothing(
    args: tuple[str, ...], field: str, fix: str, tmp_path: Path
) -> None:
    given = (*TINY, "--out", str(tmp_path / "run"))
    code, output, errors = call("train", *given, *args)
    assert code == 2
    assert errors.startswith("agent57: ")
    assert errors.count("\n") == 1, errors
    assert field in errors
    assert fix in errors
    assert not output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("args", "actors", "lanes"),
    [
        ((), 2, 8),
        (("--actors", "4"), 4, 8),
        (("--actors", "3", "--lanes-per-actor", "5"), 3, 15),
        (("--lanes-per-actor", "5"), 2, 10),
        # Options for fields count from the start, also in checks of other options.
        (("--actors", "3", "--actor.lanes", "6"), 3, 6),
        (("--cluster.actors", "3", "--lanes-per-actor", "5"), 3, 15),
        (("--actors", "8", "--cluster.shards", "8"), 8, 8),
    ],
)
def test_lanes_and_actors_on_a_cluster(args: tuple[str, ...], actors: int, lanes: int) -> None:
    config, _ = configured([*TINY, "--runtime", "cluster", *args])
    assert config.run.runtime == "cluster"
    assert (config.cluster.actors, config.actor.lanes) == (actors, lanes)


@pytest.mark.parametrize(
    "args",
    [
        ("--frames", "many"),
        ("--actor.lanes", "few"),
        ("--learner.loss", "td"),
        ("--actor.lanes",),
        ("pong",),
    ],
)
def test_words_that_cannot_be_read_are_one_line_too(args: tuple[str, ...], tmp_path: Path) -> None:
    code, _, errors = call("train", *TINY, *args)
    assert code == 2
    assert errors.count("\n") == 1, errors
    assert args[-1] in errors or args[0] in errors
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_a_run_is_refused_and_left_alone(tmp_path: Path) -> None:
    out = tmp_path / "run"
    RunFolder.create(out, Config()).close()
    before = (out / CONFIG_FILE).read_bytes()
    code, _, errors = call("train", *TINY, "--out", str(out))
    assert code == 2
    assert errors.count("\n") == 1
    assert f"--out {out} already holds a run" in errors
    assert f"agent57 resume {out}" in errors
    assert (out / CONFIG_FILE).read_bytes() == before
    assert to_dict(Config())["run"]["scale"] == "paper"


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "notes.txt"
    out.write_text("precious")
    code, _, errors = call("train", *TINY, "--out", str(out))
    assert code == 2
    assert "is a file, not a folder" in errors
    assert out.read_text() == "precious"


def test_compiling_without_a_compiler_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    code, _, errors = call("train", *TINY, "--learner.compile", "on", "--frames", "10")
    assert code == 2
    assert "learner.compile on needs a C++ compiler" in errors
    assert errors.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_missing_optional_package_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "minigrid", None)
    code, _, errors = call("train", "--env", "MiniGrid-Empty-5x5-v0", "--scale", "tiny")
    assert code == 2
    assert "pip install 'agent57[minigrid]'" in errors
    assert errors.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_unknown_commands_are_answered_with_the_nearest() -> None:
    code, _, errors = call("trian")
    assert code == 2
    assert errors.count("\n") == 1
    assert "unknown command 'trian'" in errors
    assert "train" in errors


@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_folder_without_a_run_cannot_be_resumed(command: str, tmp_path: Path) -> None:
    code, _, errors = call(command, str(tmp_path))
    assert code == 2
    assert f"{tmp_path} holds no run" in errors
    assert not list(tmp_path.iterdir())


def test_without_a_command_the_commands_are_listed() -> None:
    for args in ((), ("--help",)):
        code, output, _ = call(*args)
        assert code == 0
        assert all(name in output for name in COMMANDS)


def test_the_version_is_printed() -> None:
    from agent57 import __version__

    code, output, _ = call("--version")
    assert code == 0
    assert output.strip() == f"agent57 {__version__}"


def test_presets_are_listed_shown_and_compared() -> None:
    code, output, _ = call("presets")
    assert code == 0
    assert "r2d2-retrace-high-gamma" in output
    code, output, _ = call("presets", "ngu", "--diff", "agent57")
    assert code == 0
    assert "network.values" in output
    assert "joint" in output
    assert "learner.batch_size" not in output
    code, output, _ = call("presets", "r2d2", "--scale", "tiny")
    assert code == 0
    assert "learner.batch_size" in output
    code, output, _ = call("presets", "ngu", "--diff", "ngu")
    assert code == 0
    assert output.strip() == "no difference"
    for args, what in ((("r2d3",), "preset 'r2d3'"), (("ngu", "--diff", "r2d3"), "--diff 'r2d3'")):
        code, _, errors = call("presets", *args)
        assert code == 2
        assert errors.startswith(f"agent57: {what} is not one of agent57,")
    code, output, errors = call("presets", "--diff", "ngu")
    assert code == 2
    assert "--diff ngu needs a preset to compare" in errors
    assert errors.count("\n") == 1
    assert not output


def test_the_module_runs_from_the_shell(tmp_path: Path) -> None:
    # In a real process, with exit code and streams as a shell sees them.
    command = [sys.executable, "-m", "agent57", "train", "--agent", "agent58"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert result.returncode == 2
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert "--agent 'agent58'" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["evaluate", "resume", "report", "watch", "train --config"])
def test_a_name_that_the_system_refuses_is_one_line(command: str) -> None:
    code, _, errors = call(*command.split(), "x" * 300)
    assert code in (1, 2)
    assert "File name too long" in errors
    assert "Traceback" not in errors


def test_an_error_of_the_system_about_no_file_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr("agent57.commands.scores.main", fail)
    with pytest.raises(OSError, match="Cannot allocate"):
        call("scores")
