import json
import math
import os
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from agent57.config import ConfigError
from agent57.presets import make_config
from agent57.reports.charts import MAX_POINTS, common_grid, line_chart, on_grid, rounded
from agent57.reports.charts import Line as ChartLine
from agent57.reports.page import write_report
from agent57.storage.history import RunHistory, find_runs, read_lines, whole_rows
from tests.reports import browser
from tests.reports.made_up_runs import write_lines, write_run
from tests.trained_run import call


def payload(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.S)
    return json.loads(found[1])


def titles(data: dict) -> list[str]:
    return [section["title"] for section in data["sections"]]


def chart(data: dict, title: str) -> dict:
    charts = [c for s in data["sections"] for c in s.get("charts", [])]
    return next(c for c in charts if c["title"] == title)


class Links(HTMLParser):
    """Collects every address that a page would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href") and value]


def test_one_run_is_one_page_that_fetches_nothing(tmp_path):
    run = write_run(tmp_path / "pong", env="pong")
    (run / "videos").mkdir()
    (run / "videos" / "episode.gif").write_bytes(b"GIF89a")
    file = write_report([run], None)
    assert file == run / "report.html"
    page = file.read_text()
    links = Links()
    links.feed(page)
    assert all(link.startswith("data:") for link in links.found)
    assert "{{" not in page.split("<script")[0]
    data = payload(page)
    assert titles(data) == [
        "Overview",
        "Learning: pong",
        "Arms: which policy of the family plays",
        "Reward and novelty",
        "Training",
        "Episodes",
        "Advice",
        "Settings",
    ]


def test_the_learning_curve_has_human_random_and_published_lines(tmp_path):
    data = payload(write_report([write_run(tmp_path / "a", env="pong")], None).read_text())
    curve = chart(data, "Score on pong")
    lines = {line["name"]: line["value"] for line in curve["references"]}
    assert lines["human"] == pytest.approx(14.6)
    assert lines["random"] == pytest.approx(-20.7)
    assert {"Agent57", "NGU", "R2D2", "MuZero"} <= set(lines)
    assert curve["hns"] == {"human": lines["human"], "random": lines["random"]}
    assert "1 seed" in curve["note"]


def test_every_chart_has_axis_labels_and_says_how_many_seeds(tmp_path):
    data = payload(write_report([write_run(tmp_path / "a", env="pong")], None).read_text())
    charts = [c for s in data["sections"] for c in s.get("charts", [])]
    assert len(charts) >= 16
    for c in charts:
        assert c["x"]
        assert c["y"]
        assert "seed" in c["note"]


def test_seeds_are_averaged_and_other_agents_stand_beside(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"a{seed}", seed=seed, env="toy/chain")
    write_run(tmp_path / "b", agent="r2d2-bandit", env="toy/chain")
    data = payload(write_report([tmp_path], tmp_path / "x" / "page.html").read_text())
    names = [line["name"] for line in chart(data, "Score on toy/chain")["series"]]
    assert names[0] == "agent57, 3 seeds"
    assert "r2d2-bandit, 1 seed" in names
    assert chart(data, "Score on toy/chain")["series"][0]["has_band"]
    throughput = chart(data, "Throughput")
    assert [line["name"] for line in throughput["series"]] == ["agent57", "r2d2-bandit"]
    mean, low, high = throughput["data"][1:4]
    assert all(a <= b <= c for a, b, c in zip(low, mean, high, strict=True))


def test_memory_is_shown_beside_what_the_replay_has_of_it(tmp_path):
    write_run(tmp_path / "run", env="toy/chain")
    data = payload(write_report([tmp_path / "run"], None).read_text())
    memory = chart(data, "Memory")
    assert [line["name"] for line in memory["series"]] == ["whole process, in RAM", "replay"]
    _, whole, replay = memory["data"]
    assert whole[-1] - replay[-1] == 5e8


def test_the_settings_show_what_differs_from_the_preset(tmp_path):
    data = payload(write_report([write_run(tmp_path / "a", seed=7)], None).read_text())
    table = data["sections"][-1]["tables"][0]
    assert ["run.seed", "7", "0"] in table["rows"]


def test_the_heat_map_has_a_row_per_arm_and_gaps_where_none_was_played(tmp_path):
    data = payload(write_report([write_run(tmp_path / "a")], None).read_text())
    rows = chart(data, "Mean return per arm")["rows"]
    assert len(rows) == make_config("agent57", "tiny").family.arms
    assert rows[-1][0] is None
    shares = chart(data, "Share of episodes per arm")["rows"]
    for column in zip(*shares, strict=True):
        assert sum(share for share in column if share is not None) == pytest.approx(1, abs=1e-4)


def test_errors_per_arm_are_drawn_where_they_were_written(tmp_path):
    data = payload(write_report([write_run(tmp_path / "a")], None).read_text())
    rows = chart(data, "Extrinsic TD error per arm")["rows"]
    gaps = [[value is None for value in row] for row in rows]
    assert gaps == [[i % 4 == arm for i in range(12)] for arm in range(4)]
    shown = [c["title"] for s in data["sections"] for c in s.get("charts", [])]
    assert "TD error per arm" not in shown  # only joint networks have this chart


def test_names_cannot_break_out_of_the_page(tmp_path):
    evil = "<script>alert(1)</script>"
    run = write_run(tmp_path / evil.replace("/", "-"))
    (run / "metrics.jsonl").open("a").write(json.dumps({"frames": 1, evil: 1.0}) + "\n")
    page = write_report([run], tmp_path / "page.html").read_text()
    assert "<script>alert" not in page


def test_a_run_that_has_only_begun_has_a_report_too(tmp_path):
    run = write_run(tmp_path / "a", num_lines=0, num_episodes=0)
    data = payload(write_report([run], None).read_text())
    assert "no evaluation yet" in str(data["sections"][1]["tables"])


def test_wrong_folders_are_named(tmp_path):
    with pytest.raises(ConfigError, match="is not a folder"):
        write_report([tmp_path / "nothing"], None)
    with pytest.raises(ConfigError, match="holds no run"):
        write_report([tmp_path], None)


def test_a_line_that_is_being_written_is_left_out_but_damage_is_not(tmp_path):
    file = tmp_path / "metrics.jsonl"
    file.write_text('{"frames": 1}\n{"frames": 2}\n{"fra')
    assert [row["frames"] for row in read_lines(file)] == [1, 2]
    file.write_text('{"frames": 1}\n{"fra\n{"frames": 2}\n')
    with pytest.raises(ConfigError, match="damaged in line 2"):
        read_lines(file)


def test_only_lines_that_hold_one_record_count(tmp_path):
    good = b'{"frames": 1}\n'
    for bad in (
        b'{"frames": 1},{"frames": 2}\n',  # inside a JSON list, this would be two records
        b'{"frames": 1, "x": true}\n',
        b'{"frames": "1"}\n',
        b'{"x": 1}\n',
        b'{"source": "actor", "phase": "train", "frames": 1}\n',
        b"{}\n",
        b'{"frames": \xff}\n',
        b'{"frames": 1' + b"0" * 400 + b"}\n",  # more than a float can be
    ):
        rows, damaged = whole_rows(good + bad + good)
        assert rows == [{"frames": 1}] * 2
        assert damaged == [2]
    # The last line is still being written.
    assert whole_rows(good + b'{"frames": 2') == ([{"frames": 1}], [])


def test_infinite_values_are_not_drawn(tmp_path):
    run = write_run(tmp_path / "a")
    text = '{"frames": 1, "loss/rnd": NaN}\n{"frames": 2, "loss/rnd": 3.0}\n'
    (run / "metrics.jsonl").write_text(text)
    assert RunHistory.read(run).column("loss/rnd") == [(2, 3.0)]


@pytest.mark.parametrize("value", [1e308, -1e308, math.nan, math.inf, -1, 1e18, 0.5, 2**63])
@pytest.mark.parametrize(
    "name", ["frames", "seconds", "updates", "evaluator/best_arm", "evaluator/return"]
)
def test_numbers_of_any_size_make_a_page(name, value, tmp_path):
    run = write_run(tmp_path / "a")
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows[-1][name] = value
    write_lines(run / "metrics.jsonl", rows)
    payload(write_report([run], None).read_text())
    episodes = [json.loads(line) for line in (run / "episodes.jsonl").read_text().splitlines()]
    for field in ("frames", "arm", "return", "length"):
        episodes[-1][field] = value
    write_lines(run / "episodes.jsonl", episodes)
    payload(write_report([run], None).read_text())


def test_thinning_keeps_the_mean_by_law():
    frames = np.arange(10.0 * MAX_POINTS)
    curve = (frames, frames % 7)
    few = on_grid(curve, common_grid([curve]))
    assert len(few) == MAX_POINTS
    assert few[1:-1].mean() == pytest.approx(curve[1].mean(), rel=1e-2)


def test_a_step_is_never_averaged():
    frames = np.arange(10.0 * MAX_POINTS)
    curve = (frames, np.where(frames % 2 == 0, 0.0, 7.0))
    assert set(on_grid(curve, common_grid([curve]), is_step=True)) <= {0.0, 7.0}


def test_seeds_are_averaged_where_all_have_begun_by_hand():
    curves = [(np.array([0.0, 4]), np.array([0.0, 4])), (np.array([2.0, 4]), np.array([4.0, 6]))]
    lines = [ChartLine(name="two", curves=curves, colour=0)]
    grid, mean, low, high = line_chart("", "", "", lines, "")["data"]
    assert grid == [0, 2, 4]
    assert mean == [None, 3, 5]
    assert low == [None, 2, 4]
    assert high == [None, 4, 6]


@pytest.mark.parametrize("value", [0.0, 1.0, -123456.7, 1.2345678e-9, 9.99999e12, 3e-300, 1e300])
def test_rounding_keeps_five_digits(value):
    assert rounded(np.array([value]))[0] == pytest.approx(value, rel=1e-4)


def test_values_that_are_not_finite_are_gaps():
    assert rounded(np.array([math.nan, math.inf, 2.0])) == [None, None, 2.0]


def test_before_the_first_episode_the_charts_say_so(tmp_path):
    run = write_run(tmp_path / "a", env="pong", num_episodes=0)
    names = ("arm_return", "episode/return", "evaluator/return")
    rows = [
        {
            k: 0.0 if k.startswith("arm_plays") else v
            for k, v in row.items()
            if not k.startswith(names)
        }
        for row in read_lines(run / "metrics.jsonl")
    ]
    write_lines(run / "metrics.jsonl", rows)
    data = payload(write_report([run], None).read_text())
    curve = chart(data, "Score on pong")
    assert curve["note"] == "No evaluation episode has ended yet."
    assert curve["empty"] == "No episode has ended yet."
    assert curve["x_range"] == [0, 12_000]
    shares = chart(data, "Share of episodes per arm")
    assert shares["empty"] == "No episode has ended yet."
    assert all(value is None for row in shares["rows"] for value in row)


def test_maps_of_two_runs_are_apart(tmp_path):
    for seed in range(2):
        write_run(tmp_path / f"seed{seed}", seed=seed)
    data = payload(write_report([tmp_path], None).read_text())
    arms = next(s for s in data["sections"] if s["title"].startswith("Arms"))
    assert {c["kind"] for c in arms["charts"]} == {"lines"}
    assert [part["title"] for part in arms["parts"]] == [
        "seed0 (agent57, seed 0)",
        "seed1 (agent57, seed 1)",
    ]
    assert all(c["kind"] == "map" for part in arms["parts"] for c in part["charts"])


TICKS = ((0, 0.25, 0.5, 0.75), (0, 0.125, 0.25), (2500, 5000, 7500), (1, 2, 3), (2e-6, 4e-6))


@browser.needs_chromium
def test_a_real_browser_draws_everything_and_answers_the_pointer(tmp_path):
    for seed in range(2):
        write_run(tmp_path / f"seed{seed}", seed=seed, env="pong")
    address = write_report([tmp_path], None).as_uri()
    with browser.chromium() as chromium:
        with browser.opened(chromium, address) as page:
            assert browser.see_all(page) >= 16
            assert all(browser.tips(page)[:8])
            assert [page.evaluate(f"Charts.ticks({list(t)}, {t[1] - t[0]})") for t in TICKS] == [
                ["0", "0.25", "0.50", "0.75"],
                ["0", "0.125", "0.250"],
                ["2.5k", "5k", "7.5k"],
                ["1", "2", "3"],
                ["2e-6", "4e-6"],
            ]
            legend = page.locator(".legend button").first
            legend.click()
            assert legend.get_attribute("aria-pressed") == "false"
            assert "toggle=" in page.url
            box = page.locator(".u-over").first.bounding_box()
            middle = box["y"] + box["height"] / 2
            page.mouse.move(box["x"] + 0.2 * box["width"], middle)
            page.wait_for_timeout(100)  # a person's hand is slower than a frame
            page.mouse.down()
            page.mouse.move(box["x"] + 0.6 * box["width"], middle, steps=4)
            page.wait_for_timeout(100)
            page.mouse.up()
            browser.wait_until(page, "location.hash.includes('zoom=')")
            page.locator("#controls button", has_text="all").click()
            browser.wait_until(page, "!location.hash.includes('zoom=')")
            assert page.errors == []
        with browser.opened(chromium, address, width=390) as page:
            browser.see_all(page)
            seen = page.evaluate(browser.OUTLINE)
            assert seen["width"] <= 390
            assert seen["right"] <= 390
            assert page.locator("td[data-head='HNS, %']").first.is_visible()
            assert page.errors == []


RANGE = """async (values) => {
  const outer = document.body.appendChild(document.createElement("div"));
  const box = outer.appendChild(document.createElement("div"));
  const page = { view: { smooth: 0 }, isHidden: () => false, isLog: () => false };
  const series = [{ name: "a", colour: 0 }];
  const chart = { kind: "lines", title: "t", x: "frames", y: "", series, data: [[0, 1], values] };
  const drawn = Charts.draw(chart, box, page);
  await new Promise(requestAnimationFrame);
  const { min, max } = drawn.plot.scales.y;
  return [min, max];
}"""


@browser.needs_chromium
def test_a_line_at_zero_stands_on_an_axis_without_negative_numbers(tmp_path):
    address = write_report([write_run(tmp_path / "run")], None).as_uri()
    with browser.chromium() as chromium, browser.opened(chromium, address) as page:
        assert page.evaluate(RANGE, [0, 0]) == [0, 1]
        assert page.evaluate(RANGE, [5, 5]) == [4.5, 5.5]
        assert page.evaluate(RANGE, [-1, 1]) == pytest.approx([-1.12, 1.12])


@browser.needs_chromium
def test_a_mark_of_health_links_to_its_advice(tmp_path):
    run = write_run(tmp_path / "run", env="pong")
    rows = [row | {"curiosity/familiar": 1.0} for row in read_lines(run / "metrics.jsonl")]
    write_lines(run / "metrics.jsonl", rows)
    address = write_report([run], None).as_uri()
    entry = "#advice-exploratory-arms-stand-still"
    with browser.chromium() as chromium:
        with browser.opened(chromium, f"{address}#smooth=0.5") as page:
            assert page.locator(entry).get_attribute("open") is None
            page.locator(".mark summary", has_text="exploratory arms stand still").click()
            page.locator(".mark[open] a").click()
            browser.wait_until(page, "location.hash.includes('advice=exploratory-arms-stand')")
            assert page.locator(f"{entry} dd").all_inner_texts()[2].startswith("At 1 every state")
            assert page.locator(f"{entry} code").first.inner_text() == "curiosity/familiar"
            assert "smooth=0.5" in page.url  # the view has not changed
            link = page.url
            assert page.errors == []
        with browser.opened(chromium, link) as page:  # the link opens the advice by itself
            browser.wait_until(page, f"document.querySelector('{entry}').open")


@browser.needs_chromium
def test_an_address_changed_by_hand_is_shown_and_only_charts_over_frames_zoom(tmp_path):
    run = write_run(tmp_path / "run", env="pong")
    profile = {
        "kind": "lines", "title": "Profile", "x": "score, %", "y": "share", "x_range": [0, 200],
        "series": [{"name": "a", "colour": 0}], "data": [[0, 100, 200], [1, 0.5, 0]], "note": "",
    }  # fmt: skip
    scale = "all('.plot')[0].card.plot?.plot.scales.x"
    ends = f"`${{{scale}?.min}},${{{scale}?.max}}`"
    address = write_report([run], None).as_uri()
    with browser.chromium() as chromium, browser.opened(chromium, address) as page:
        page.evaluate("location.hash = 'zoom=2000-5000&toggle=Score on pong|human&log=TD error'")
        human = page.locator(".legend button", has_text="human").first
        browser.wait_until(page, f"{ends} === '2000,5000'")
        assert human.get_attribute("aria-pressed") == "false"
        log = page.locator("figure", has_text="as in the priorities").locator("button").first
        assert log.get_attribute("aria-pressed") == "true"
        page.evaluate(
            f"Page.show({json.dumps({'sections': [{'title': 'Suite', 'charts': [profile]}]})})"
        )
        browser.wait_until(page, f"{ends} === '0,200'")
        box = page.locator(".u-over").first.bounding_box()
        page.mouse.move(box["x"] + 0.2 * box["width"], box["y"] + 40)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 40, steps=4)
        page.mouse.up()
        assert "zoom=2000-5000" in page.url
        assert page.errors == []


def test_exported_weights_are_not_taken_for_a_run(tmp_path):
    run = write_run(tmp_path / "runs" / "a")
    weights = tmp_path / "runs" / "weights"
    weights.mkdir()
    (weights / "config.json").write_bytes((run / "config.json").read_bytes())
    assert find_runs([tmp_path]) == [run]
    with pytest.raises(ConfigError, match=r"weights holds no records of a run: metrics\.jsonl is"):
        find_runs([weights])


@pytest.mark.parametrize("name", ["metrics.jsonl", "episodes.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_a_journal_that_is_no_file_is_one_line(name, kind, tmp_path):
    run = write_run(tmp_path / "a")
    (run / name).unlink()
    if kind == "pipe":
        os.mkfifo(run / name)
    elif kind == "folder":
        (run / name).mkdir()
    else:
        (run / name).symlink_to("/dev/zero")
    table = ("--table", name.removesuffix(".jsonl"))
    for command in (("report", run), ("export", run, "--csv", tmp_path / "a.csv", *table)):
        code, text = call(*command)
        assert code == 1, text
        assert text.startswith(f"agent57: {run / name}: ")
        assert len(text.splitlines()) == 1
    assert not (tmp_path / "a.csv").exists()


@pytest.mark.parametrize("content", ["", "[]", "5", '{"coverage": 1}', b"\xff\xfe"])
def test_results_of_a_suite_that_are_damaged_are_one_line(content, tmp_path):
    write_run(tmp_path / "a")
    file = tmp_path / "results.json"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError, match=r"results\.json holds no results of a suite"):
        write_report([tmp_path], None)
