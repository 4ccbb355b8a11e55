import json
import re
import urllib.error
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("starlette", reason="agent57[watch] is not installed")
pytest.importorskip("uvicorn", reason="agent57[watch] is not installed")

import torch

from agent57.config import ConfigError
from agent57.envs.make import make_env
from agent57.evaluator import Evaluator
from agent57.reports.page import write_report
from agent57.storage.history import read_lines
from agent57.video.lane_files import LaneWriter
from agent57.watch.server import address, new_token, open_socket, pause_after
from tests.reports import browser
from tests.reports.made_up_runs import metrics, write_lines, write_run
from tests.runtime.runs import run_config
from tests.watch.served import fetch, payload, serving


def test_the_live_page_and_the_report_show_the_same(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", env="pong")
    report = write_report([run], tmp_path / "report.html").read_text()
    embedded = re.search(r'id="payload">(.*?)</script>', report, re.S)
    assert embedded is not None
    with serving(run) as page:
        live = payload(page)
    assert live["sections"] == json.loads(embedded[1])["sections"]
    assert live["shown"] == ["run"]
    assert live["runs"][0]["state"] == "training"


def test_runs_are_chosen_by_key_and_nothing_else_is_served(tmp_path: Path) -> None:
    for seed in range(2):
        write_run(tmp_path / "inside" / f"seed{seed}", seed=seed)
    write_run(tmp_path / "outside")
    with serving(tmp_path / "inside") as page:
        assert payload(page, "runs=inside/seed1")["shown"] == ["inside/seed1"]
        assert payload(page, "runs=../outside,/etc")["shown"] == ["inside/seed0", "inside/seed1"]
        for path in ("/config.json", "/inside/seed0/config.json", "/../outside/config.json"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                fetch(page + path)


def test_a_run_with_a_comma_in_its_name_can_be_chosen(tmp_path: Path) -> None:
    for name in ("a,b", "c", "d"):
        write_run(tmp_path / "runs" / name)
    with serving(tmp_path / "runs") as page:
        chosen = payload(page, "runs=runs/a%2Cb&runs=runs/d")
    assert chosen["shown"] == ["runs/a,b", "runs/d"]


def test_pages_on_two_ports_of_a_host_keep_their_tokens_apart(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    cookies = []
    with serving(run, token="one") as first, serving(run, token="two") as second:
        for page, token in ((first, "one"), (second, "two")):
            with urlopen(f"{page}/?token={token}", timeout=60) as answer:
                cookies.append(answer.headers["Set-Cookie"].split(";")[0])
        for page in (first, second):  # a browser sends the cookies of a host to all its ports
            assert b"sections" in fetch(f"{page}/page", Cookie="; ".join(cookies))


def test_a_zoom_asks_for_the_lines_between(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with serving(run) as page:
        charts = [
            c for s in payload(page, "zoom=3000-5000")["sections"] for c in s.get("charts", [])
        ]
        everything = payload(page, "zoom=nonsense")
    assert next(c for c in charts if c["title"] == "Losses")["data"][0] == [3000, 4000, 5000]
    assert everything["sections"]


def test_without_the_token_nothing_is_answered(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with serving(run, token="secret") as page:
        for path in ("/", "/page", "/events", "/page?token=wrong"):
            with pytest.raises(urllib.error.HTTPError, match="403"):
                fetch(page + path)
        with urlopen(f"{page}/?token=secret", timeout=60) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert b"sections" in fetch(f"{page}/page", Cookie=cookie.split(";")[0])


def test_on_loopback_a_page_of_another_host_is_refused(tmp_path: Path) -> None:
    with (
        serving(write_run(tmp_path / "run")) as page,
        pytest.raises(urllib.error.HTTPError, match="403"),
    ):
        fetch(f"{page}/page", Host="evil.example")


def test_only_beyond_loopback_there_is_a_token() -> None:
    assert new_token("127.0.0.1") is None
    token = new_token("0.0.0.0")
    assert token is not None
    assert len(token) >= 16
    with open_socket("127.0.0.1", 0, 0) as listener:
        port = listener.getsockname()[1]
        assert address(listener, "127.0.0.1", None) == f"http://127.0.0.1:{port}/"
        assert address(listener, "0.0.0.0", token).endswith(f":{port}/?token={token}")


def test_a_taken_port_is_refused_if_asked_for_and_else_avoided() -> None:
    with open_socket("127.0.0.1", 0, 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--port {port} cannot be used"):
            open_socket("127.0.0.1", port, 0)
        with open_socket("127.0.0.1", None, port) as other:
            assert other.getsockname()[1] != port


def test_work_is_followed_by_its_share_of_rest() -> None:
    assert pause_after(0.001, 1.0, 100) == 1.0
    assert pause_after(0.05, 1.0, 100) == pytest.approx(5.0)


def test_a_server_stops_without_complaint_while_a_page_is_open(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level("ERROR", "uvicorn.error"),
        serving(write_run(tmp_path / "run")) as page,
    ):
        stream = urlopen(f"{page}/events", timeout=60)
        assert stream.readline() == b"retry: 1000\n"
    with stream:
        assert b"event: changed" in stream.read()  # reads to the end of the stream
    assert caplog.messages == []


def test_names_cannot_break_out_of_the_live_page(tmp_path: Path) -> None:
    evil = "<img src=x onerror=alert(1)>"
    run = write_run(tmp_path / evil)
    with serving(run) as page:
        assert evil.encode() not in fetch(f"{page}/")
        assert payload(page)["shown"] == [evil]  # unchanged in the data; the page shows it as text


@browser.needs_chromium
def test_curves_move_while_a_run_trains_and_the_page_reconnects(tmp_path: Path) -> None:
    run = write_run(tmp_path / "<b>run", env="pong")
    rows = read_lines(run / "metrics.jsonl")
    rng = __import__("numpy").random.default_rng(0)
    latest = "all('dd')[0]?.innerText"
    with browser.chromium() as chromium:
        with serving(run) as address:
            port = int(address.rsplit(":", 1)[1])
            page = chromium.new_page(viewport={"width": 1280, "height": 900})
            errors: list[str] = []
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.goto(f"{address}/#smooth=0.5&theme=dark")
            browser.wait_until(page, f"{latest} === '12,000 of 100,000'")
            assert page.locator("#runs").inner_text().count("<b>run") == 1
            assert page.locator("output").inner_text() == "0.50"
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"
            write_lines(run / "metrics.jsonl", [*rows, metrics(12, 4, rng)])
            browser.wait_until(page, f"{latest} === '13,000 of 100,000'")
        browser.wait_until(page, "all('.status')[0].innerText.includes('reconnecting')")
        write_lines(run / "metrics.jsonl", [*rows, metrics(12, 4, rng), metrics(13, 4, rng)])
        with serving(run, port=port):
            browser.wait_until(page, f"{latest} === '14,000 of 100,000'")
            browser.wait_until(page, "all('.status')[0].innerText.includes('live')")
            page.close()
        assert errors == []


@browser.needs_chromium
def test_lanes_are_shown_with_their_pictures_and_action_names(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", env="random_coin")
    config = run_config("random_coin", 1000)
    env = make_env(config.env, 1)
    evaluator = Evaluator(config, env, lambda: ({}, -1), torch.device("cpu"))
    evaluator.player.load_weights = lambda *_: None  # type: ignore[method-assign]
    writer = LaneWriter(run)
    with (
        browser.chromium() as chromium,
        serving(run) as address,
        browser.opened(chromium, address, width=390) as page,
    ):
        for _ in range(600):
            evaluator.step(0)
            writer.show(lambda: {"evaluator": evaluator.lanes(1)})
            if page.evaluate("Boolean(document.querySelector('.lane img')?.naturalWidth)"):
                break
            page.wait_for_timeout(100)
        assert page.locator(".lane h3").inner_text() == "Evaluator, trying arms"
        names = page.locator(".action > span:first-child").all_inner_texts()
        assert names == ["up", "down", "left", "right"]
        assert page.locator(".action.chosen").count() == 1
        assert page.evaluate("document.querySelector('.lane img').naturalWidth") == 120
        assert page.evaluate(browser.OUTLINE)["right"] <= 390
        assert page.errors == []


FAKE_EVENTS = """window.EventSource = class extends EventTarget {
  constructor() { super(); window.events = this; }
  close() {}
};"""
LANE = {
    "name": "run: actor 0", "source": "actor", "lane": 0, "phase": "train", "arm": 0,
    "beta": 0.0, "gamma": 0.99, "epsilon": 0.4, "score": 0.0, "novelty": None, "modulation": None,
    "networks": ["extrinsic"], "values": [[0.0, 1.0]], "policy": None, "action": 0,
    "best_action": 1, "action_names": ["left", "right"], "episode": 3,
}  # fmt: skip


@browser.needs_chromium
def test_a_picture_says_its_age_when_the_numbers_have_gone_on(tmp_path: Path) -> None:
    def tell(kind: str, **more: object) -> str:
        data = json.dumps(json.dumps(more))
        page.evaluate(f"events.dispatchEvent(new MessageEvent('{kind}', {{data: {data}}}))")
        return page.locator(".screen .note").inner_text()

    with browser.chromium() as chromium, serving(write_run(tmp_path / "run")) as address:
        page = chromium.new_page()
        page.add_init_script(FAKE_EVENTS)
        page.goto(address)
        assert tell("lane", **LANE, steps=100) == "the picture is being drawn"
        assert tell("picture", name=LANE["name"], episode=3, steps=100, source="data:,") == ""
        assert tell("lane", **LANE, steps=105) == ""
        assert tell("lane", **LANE, steps=120) == "picture of step 100"
        early = {"steps": 200, "source": "data:,", "note": "catching up: 100 steps behind"}
        assert tell("picture", name=LANE["name"], episode=3, **early) == early["note"]
        assert page.locator(".lane img[src]").count() == 1
        assert tell("picture", name=LANE["name"], episode=3, steps=200, note="lost") == "lost"
        assert page.locator(".lane img[src]").count() == 0  # no picture of an earlier step
        page.close()


@browser.needs_chromium
def test_numbers_read_as_people_write_them_and_nothing_plays_after_the_end(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    title = "all('#lanes h2')[0]?.textContent"
    with browser.chromium() as chromium, serving(run) as address:
        page = chromium.new_page()
        page.add_init_script(FAKE_EVENTS)
        page.goto(address)
        page.evaluate("events.onopen()")
        numbers = (1e-5, 0.25, 947.3, 2035.4, 12345, 3.1e6)
        said = [page.evaluate(f"Charts.short({x})") for x in numbers]
        assert said == ["1e-5", "0.25", "947.3", "2,035", "12.35k", "3.1M"]
        lane = json.dumps(json.dumps({**LANE, "score": 12345.0, "steps": 9}))
        page.evaluate(f"events.dispatchEvent(new MessageEvent('lane', {{data: {lane}}}))")
        assert page.locator(".score b").inner_text() == "12,345"
        browser.wait_until(page, f"{title} === 'Playing now'")
        rows = read_lines(run / "metrics.jsonl")
        write_lines(run / "metrics.jsonl", [*rows, {**rows[-1], "frames": 100_000}])
        page.evaluate("events.onopen()")
        browser.wait_until(page, f"{title} === 'Played last'")
        assert "100,000 of 100,000 frames" in page.locator("#runs").inner_text()
        page.close()


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_out_of_range_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match=r"--port must lie in 0 to 65535"):
        open_socket("127.0.0.1", port, 0)
    with pytest.raises(ConfigError, match="--host needs an address"):
        open_socket("", None, 0)
