"""What a user of the package sees before any code runs: its page, its extras, its links."""

import os
import re
import subprocess
import sys
import tomllib

from tests.house.names import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Imports every module without any extra installed, and prints the modules that need an extra.
WALK = """
import importlib, pkgutil, sys
for extra in sys.argv[1:]:
    sys.modules[extra] = None
import agent57
for module in pkgutil.walk_packages(agent57.__path__, "agent57."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ImportError:
        print(module.name)
"""
OF_EXTRAS = r"agent57\.(envs\.(atari|atari_memory|emulator)|runtime\.cluster\.\w+|watch\.server)"
LINK = re.compile(r"\]\(([^)\s]+)\)")


def test_links_of_the_package_page_work_outside_the_repository() -> None:
    links = LINK.findall((ROOT / PROJECT["readme"]).read_text())
    assert links
    assert all(link.startswith("https://") for link in links)


def test_links_of_the_readme_lead_somewhere() -> None:
    links = [link for link in LINK.findall((ROOT / "README.md").read_text()) if "://" not in link]
    assert links
    assert [link for link in links if not (ROOT / link.partition("#")[0]).exists()] == []


def test_the_core_is_without_the_emulator_and_extras_are_as_documented() -> None:
    assert not [need for need in PROJECT["dependencies"] if need.startswith("ale")]
    extras = PROJECT["optional-dependencies"]
    assert extras["atari"][0].startswith("ale-py")
    for page in ("README.md", PROJECT["readme"]):
        named = re.findall(r"`(\w+)`", (ROOT / page).read_text().partition("Extras:")[2][:200])
        assert set(named) <= set(extras)
        assert len(named) >= 7


def test_modules_that_need_no_extra_are_imported_without_any() -> None:
    extras = ["ale_py", "ray", "minigrid", "starlette", "uvicorn", "wandb", "imageio"]
    command = [sys.executable, "-c", WALK, *extras, "huggingface_hub", "stable_baselines3"]
    path = {"PYTHONPATH": str(ROOT)}
    walked = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **path})
    assert walked.returncode == 0, walked.stderr
    failed = walked.stdout.split()
    assert "agent57.envs.emulator" in failed
    assert [name for name in failed if not re.fullmatch(OF_EXTRAS, name)] == []


def test_each_python_of_the_classifiers_is_tested() -> None:
    versions = {c.rpartition(" ")[2] for c in PROJECT["classifiers"] if "Python :: 3." in c}
    workflow = (ROOT / ".github/workflows/test.yml").read_text()
    assert versions == set(re.findall(r'"(3\.\d+)"', workflow))
