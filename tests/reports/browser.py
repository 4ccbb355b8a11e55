"""A page in a real headless Chromium, without further packages: what it logs and what it draws.

A probe is appended to the page; it plays with it as a person would and writes what it saw into an
element that `--dump-dom` brings back.
"""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    *("--hide-scrollbars", "--enable-logging=stderr", "--virtual-time-budget=4000"),
]
ERRORS = """<script>window.seenErrors = [];
addEventListener("error", (e) => seenErrors.push(String(e.message)));
addEventListener("unhandledrejection", (e) => seenErrors.push(String(e.reason)));
</script>"""
PROBE = """<pre id="probe"></pre><script>setTimeout(() => {
  const charts = [...document.querySelectorAll("figure svg")];
  const tips = charts.map((svg) => {
    const box = svg.getBoundingClientRect();
    for (const share of [0.5, 0.3]) {
      const at = { clientX: box.left + box.width * 0.6, clientY: box.top + box.height * share };
      svg.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, ...at }));
      if (!tip.hidden) break;
    }
    const text = tip.hidden ? "" : tip.innerText;
    svg.dispatchEvent(new PointerEvent("pointerleave"));
    return text;
  });
  const button = document.querySelector(".legend button");
  const count = () => document.querySelectorAll("figure svg path.line").length;
  const before = count();
  button?.click();
  const after = count();
  button?.click();
  document.getElementById("probe").textContent = JSON.stringify({
    errors: seenErrors, num_charts: charts.length, tips,
    num_drawn: charts.filter((svg) => svg.querySelector("path.line, rect, circle")).length,
    num_labelled: charts.filter((svg) => svg.querySelectorAll("text").length >= 3).length,
    hides: before - after, restores: count() === before,
    page_width: document.documentElement.scrollWidth, window_width: innerWidth,
    sections: [...document.querySelectorAll("h2")].map((h) => h.innerText),
    right_edge: Math.max(...[...document.querySelectorAll(".card, h1, h2, p, nav a")]
      .map((element) => element.getBoundingClientRect().right)),
    num_videos: document.querySelectorAll("video, img.film").length,
  });
}, 500);</script>"""


def visit(page: Path, width: int, height: int = 900) -> dict:
    """Open a page in a window of this size; what the probe saw, and `console` errors."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "page.html"
        text = page.read_text("utf-8").replace("<title>", f"{ERRORS}<title>", 1)
        text = text.replace("</body>", f"{PROBE}</body>")
        copy.write_text(framed(text, width), "utf-8")
        size = f"--window-size={max(width, 500)},{height}"
        profile = f"--user-data-dir={folder}/profile"
        command = [CHROMIUM, *FLAGS, size, profile, "--dump-dom", copy.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, "the probe did not run"
    seen = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    seen["console"] = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return seen


def framed(text: str, width: int) -> str:
    """The page held to a phone's width, which a window may not go down to."""
    if width >= 500:
        return text
    return text.replace("<style>", f"<style>html {{ width: {width}px; }}\n", 1)
