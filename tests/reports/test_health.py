import re
from dataclasses import replace
from pathlib import Path

import pytest

from agent57.presets import flatten, make_config
from agent57.reports.advice import ADVICE, BY_SYMPTOM, as_markdown
from agent57.reports.health import RULES, marks
from agent57.storage.history import RunHistory
from tests.house.names import ROOT

HEALTHY = {
    "frames": 900, "updates": 1000, "reward/extrinsic": 0.1, "value/extrinsic": 0.5,
    "curiosity/familiar": 0.2, "curiosity/memory_fill": 0.1, "curiosity/modulation_at_1": 0.9,
    "action_gap/0": 0.2, "td/extrinsic/0": 0.1, "td/extrinsic/1": 0.1, "clipped/extrinsic": 0.1,
    "arm_plays/0": 10.0, "arm_plays/1": 10.0, "batch_share/0": 0.5, "batch_share/1": 0.5,
    "target_difference/extrinsic": 0.05, "replay/windows": 100, "replay/effective_windows": 60,
    "priority/drawn": 1.0, "priority/mean": 1.0, "replay/age": 50, "replay/transitions": 100,
    "actor/weights_age": 2, "churn/values": 0.05,
}  # fmt: skip


def symptoms(**changed: float) -> list[str]:
    config = make_config("agent57", "tiny")
    config = replace(config, run=replace(config.run, frames=1000))
    row = HEALTHY | {name.replace("__", "/"): value for name, value in changed.items()}
    episodes = [{"phase": "evaluate", "frames": 1, "return": 0.0}]
    run = RunHistory(path=Path("run"), config=config, metrics=[row] * 3, episodes=episodes)
    return [mark["symptom"] for mark in marks(run)]


def test_a_healthy_run_has_no_mark() -> None:
    assert symptoms() == []


@pytest.mark.parametrize(
    ("symptom", "changed"),
    [
        ("no arm ever earns anything", {"reward__extrinsic": 0.0}),
        ("exploratory arms stand still", {"curiosity__familiar": 1.0}),
        ("going in circles pays", {"curiosity__memory_fill": 1.0}),
        ("life-long novelty is off", {"curiosity__modulation_at_1": 1.0}),
        ("some arms are not learned from", {"batch_share__0": 0.01}),
        ("values are learned, behaviour is not", {"action_gap__0": 0.05}),
        ("greedy actions flip", {"churn__values": 0.3}),
        ("one arm's errors dwarf the others'", {"td__extrinsic__1": 5.0}),
        ("gradients are cut all the time", {"clipped__extrinsic": 0.9}),
        ("values are too good", {"reward__extrinsic": -0.1}),
        ("learning is slow though errors are large", {"target_difference__extrinsic": 0.3}),
        ("learning from few windows", {"replay__effective_windows": 5}),
        ("priorities are out of date", {"priority__drawn": 4.0}),
        ("learning from the past", {"replay__age": 90}),
        ("actors play with old weights", {"actor__weights_age": 10**6}),
    ],
)
def test_each_symptom_shows_alone(symptom: str, changed: dict[str, float]) -> None:
    assert symptoms(**changed) == [symptom]


def test_every_mark_has_its_advice() -> None:
    assert {rule.symptom for rule in RULES} <= set(BY_SYMPTOM)
    config = make_config("agent57", "tiny")
    row = HEALTHY | {"reward/extrinsic": -0.1}
    (mark,) = marks(RunHistory(path=Path("run"), config=config, metrics=[row], episodes=[]))
    assert mark["anchor"] == "values-are-too-good"
    assert "`learner.target_period`" in mark["advice"]


def test_the_docs_hold_the_same_advice_under_the_same_anchors() -> None:
    """If this fails, copy the output of `as_markdown()` to docs/DIAGNOSE.md."""
    assert as_markdown() in (ROOT / "docs" / "DIAGNOSE.md").read_text()
    toc = pytest.importorskip("markdown.extensions.toc", reason="markdown builds the docs")
    for advice in ADVICE:
        assert advice.anchor == toc.slugify(advice.title, "-")
    assert len({advice.anchor for advice in ADVICE}) == len(ADVICE)


def test_advice_names_settings_that_exist() -> None:
    known = set(flatten(make_config("agent57", "tiny")))
    sections = {name.split(".")[0] for name in known}
    for advice in ADVICE:
        for word in re.findall(r"`([a-z_]+\.[a-z_]+)`", advice.look_at + advice.otherwise):
            assert word.split(".")[0] in sections
            assert word in known


def test_a_run_without_metrics_has_no_mark() -> None:
    config = make_config("agent57", "tiny")
    assert marks(RunHistory(path=Path("run"), config=config, metrics=[], episodes=[])) == []
