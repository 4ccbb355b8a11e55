"""The files of a release agree, and the page on PyPI has no relative links."""

import re
import tomllib
from pathlib import Path

import agent57

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_all_files_name_the_same_version_and_day() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    changelog = (ROOT / "CHANGELOG.md").read_text()
    version, day = re.search(r"^## \[(.+)\] - (\d{4}-\d\d-\d\d)$", changelog, re.M).groups()
    assert PROJECT["version"] == agent57.__version__ == version
    assert f"\nversion: {version}\ndate-released: {day}\n" in citation


def test_links_on_pypi_are_whole_addresses() -> None:
    page = (ROOT / PROJECT["readme"]).read_text()
    links = re.findall(r"\]\(([^)]*)\)", page)
    assert links
    for link in (*links, *PROJECT["urls"].values()):
        assert re.fullmatch(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/\S*)?", link), link
    assert not re.search(r"<img|^\[[^]]+\]:", page, re.M)


def test_extras_on_pypi_exist() -> None:
    page = (ROOT / PROJECT["readme"]).read_text()
    extras = set(PROJECT["optional-dependencies"])
    named = re.findall(r"agent57\[([\w,]+)\]", page)
    assert {extra for names in named for extra in names.split(",")} <= extras
    listed = re.search(r"Extras:\s(.*?)\.\n", page, re.S)[1]
    assert set(re.findall(r"`(\w+)`", listed)) <= extras
