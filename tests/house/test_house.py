"""Rules of this project that no linter checks: every module is tested, every setting is used."""

import ast
import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest

from agent57.presets import PRESETS, SCALES, make_config
from tests.house.names import ROOT, modules, test_names
from tests.house.reads import FIELDS, fields_read

# Modules that no test imports and no test file is named after, and where they are tested.
TESTED_ELSEWHERE = {
    "__main__.py": "tests/test_cli.py",
    "bench/learning.py": "tests/bench/test_benchmark.py",
    "bench/replaying.py": "tests/bench/test_benchmark.py",
    "bench/training.py": "tests/bench/test_benchmark.py",
    "commands/bench.py": "tests/bench/test_benchmark.py",
    "commands/evaluate.py": "tests/trained/test_evaluation.py",
    "commands/list_presets.py": "tests/test_cli.py",
    "commands/plan.py": "tests/planning/test_forecast.py",
    "commands/queue_view.py": "tests/experiments/test_jobs.py",
    "commands/report.py": "tests/reports/test_page.py",
    "commands/resume.py": "tests/runtime/test_resume.py",
    "commands/scores.py": "tests/scores/test_published.py",
    "commands/suite.py": "tests/experiments/test_suite_runs.py",
    "commands/train.py": "tests/test_cli.py",
    "commands/watch.py": "tests/watch/test_command.py",
    "replay/message.py": "tests/replay/test_block.py",
    "reports/charts.py": "tests/reports/test_page.py",
    "storage/history.py": "tests/reports/test_page.py",
    "reports/sections.py": "tests/reports/test_page.py",
    "reports/suite_section.py": "tests/experiments/test_suite_results.py",
    "terminal/evaluation_view.py": "tests/trained/test_evaluation.py",
    "video/film.py": "tests/trained/test_evaluation.py",
    "runtime/cluster/actors.py": "tests/runtime/cluster/test_conductor.py",
    "runtime/cluster/learners.py": "tests/runtime/cluster/test_conductor.py",
    "runtime/cluster/shards.py": "tests/runtime/cluster/test_conductor.py",
    "runtime/cluster/totals.py": "tests/runtime/cluster/test_conductor.py",
    "runtime/saving.py": "tests/runtime/test_resume.py",
    "trained/trained_run.py": "tests/trained/test_evaluation.py",
    "update_metrics.py": "tests/test_learner.py",
}


def modules_with_a_test_file() -> set[Path]:
    tested = {path.relative_to("tests") for path in test_names()}
    return {module for module in modules() if module.with_name(f"test_{module.name}") in tested}


def modules_that_tests_import() -> set[Path]:
    found = set()
    for file in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("agent57."):
                found.add(Path(*node.module.split(".")[1:]).with_suffix(".py"))
    return found


def test_every_module_is_tested_somewhere() -> None:
    """A module needs a test file of its name, a test that imports it, or an entry above."""
    found = modules_with_a_test_file() | modules_that_tests_import()
    names = {str(m) for m in set(modules()) - found if m.name != "__init__.py"}
    assert names <= set(TESTED_ELSEWHERE)
    for module, file in TESTED_ELSEWHERE.items():
        assert Path(module) in modules(), module
        assert (ROOT / file).is_file(), file


def test_no_module_collects_odds_and_ends() -> None:
    names = {path.name for path in modules()}
    assert not names & {"utils.py", "util.py", "helpers.py", "misc.py", "common.py"}


def test_every_module_says_what_it_is() -> None:
    for path, tree in modules().items():
        assert ast.get_docstring(tree), path


def test_importing_the_package_alone_is_light() -> None:
    code = "import sys, agent57; print({'gymnasium', 'numpy', 'torch'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"


def knobs(config: object, prefix: str = "") -> set[str]:
    """Return the dotted names of all fields of a configuration."""
    names: set[str] = set()
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value, name = getattr(config, field.name), f"{prefix}{field.name}"
        names |= knobs(value, f"{name}.") if dataclasses.is_dataclass(value) else {name}
    return names


def test_every_setting_is_read_somewhere() -> None:
    inside = ("config", "presets")
    read = fields_read([tree for path, tree in modules().items() if path.stem not in inside])
    assert {(section, name) for section in FIELDS for name in FIELDS[section]} <= read


def test_a_variable_with_the_name_of_a_setting_is_no_setting() -> None:
    code = """
class Part:
    size: SequenceConfig
    def __init__(self, config: Config):
        self._config = config.replay
    def step(self, controller: ControllerConfig, other):
        return controller.epsilon, other.window, self._config.threads, self.size.blocks_per_window
"""
    assert fields_read([ast.parse(code)]) == {
        ("Config", "replay"),
        ("ControllerConfig", "epsilon"),
        ("ReplayConfig", "threads"),
        ("SequenceConfig", "replay_period"),
        ("SequenceConfig", "window_length"),
    }


def test_only_commands_and_the_terminal_print() -> None:
    # All output goes through the console that a command gets.
    rooms = ("cli.py", "commands/", "terminal/")
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                is_print = getattr(node.func, "id", "") == "print"
                is_console = getattr(node.func, "attr", "") == "print"
                is_inside = str(path).startswith(rooms)
                assert not is_print, f"{path}:{node.lineno}"
                assert is_inside or not is_console, f"{path}:{node.lineno}"


def test_nothing_global_is_drawn_from() -> None:
    # The same seed must give the same result, so random numbers come from passed generators.
    forbidden = {"seed", "rand", "randn", "randint", "random_sample", "shuffle", "choice"}
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or node.attr not in forbidden:
                continue
            owner = node.value
            is_global = isinstance(owner, ast.Attribute) and owner.attr == "random"
            assert not is_global, f"{path}: np.random.{node.attr}"


def test_no_failure_is_swallowed() -> None:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ExceptHandler):
                is_empty = all(isinstance(line, ast.Pass) for line in node.body)
                assert node.type is not None, f"{path}:{node.lineno}: bare except"
                assert not is_empty, f"{path}:{node.lineno}: swallowed"


def test_ray_and_emulators_stay_in_their_rooms() -> None:
    rooms = {
        "ray": ("runtime/cluster/calls.py",),
        "ale_py": ("envs/",),
        "gymnasium": ("envs/",),
        "tyro": ("cli.py", "commands/"),
    }
    for path, tree in modules().items():
        for node in ast.walk(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.append(node.module)
            for name in names:
                rooms_of = rooms.get(name.split(".")[0])
                is_inside = rooms_of is None or str(path).startswith(rooms_of)
                assert is_inside, f"{path} imports {name}"


@pytest.mark.parametrize("scale", SCALES)
def test_all_presets_can_be_made(scale: str) -> None:
    for agent in PRESETS:
        assert make_config(agent, scale).run.agent == agent


def names_touched(node: ast.AST) -> list[str]:
    """Return the names of attributes that code uses, except attributes of its own `self`."""
    if isinstance(node, ast.ImportFrom):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.Attribute):
        is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        return [] if is_own else [node.attr]
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("getattr", "setattr")):
        found = (arg.value for arg in node.args if isinstance(arg, ast.Constant))
        return [name for value in found for name in str(value).split(".")]
    return []


def hidden_names(tree: ast.AST) -> list[str]:
    """Return the used names that begin with one underscore, and their lines."""
    return [
        f"{getattr(node, 'lineno', '')}: {name}"
        for node in ast.walk(tree)
        for name in names_touched(node)
        if name.startswith("_") and not name.startswith("__")
    ]


def test_tests_touch_no_underscore_names_of_the_package() -> None:
    paths = sorted((ROOT / "tests").rglob("*.py"))
    found = {path: hidden_names(ast.parse(path.read_text())) for path in paths}
    assert not {path: names for path, names in found.items() if names}


def test_all_ways_to_an_underscore_name_are_known() -> None:
    code = """
from agent57 import __version__
from agent57.learner import Learner, _names
class Fake:
    def __init__(self, learner):
        self._learner = learner
    def play(self, patch):
        patch.setattr("agent57.learner._of_all", None)
        return self._learner._target, getattr(self, "_learner"), self.kind.__name__
"""
    assert hidden_names(ast.parse(code)) == [
        "3: _names", "8: _of_all", "9: _target", "9: _learner",
    ]  # fmt: skip
