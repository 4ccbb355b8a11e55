"""The live view of a run in a terminal."""

from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from agent57.config import Config

ACTORS_SHOWN = 8  # actors with a line of their own in the view of a cluster


def duration(seconds: float) -> str:
    """Write a duration as hours and minutes, or as minutes and seconds."""
    whole = int(seconds)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {whole % 60:02d} s"


class TerminalView:
    """Shows a live panel on a terminal; elsewhere prints one line per line of metrics."""

    def __init__(self, config: Config, console: Console, title: str) -> None:
        self._config = config
        self._console = console
        self._title = title
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._num_lines = 0
        self._is_blank = True

    def __enter__(self) -> "TerminalView":
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def show(
        self,
        counters: dict[str, int],
        latest: dict[str, Any],
        seconds: float,
        live: dict[str, float] | None = None,
    ) -> None:
        """Show the counters, the latest line of metrics, and the state of a cluster."""
        if self._console.is_terminal:
            panel = self._panel(counters, latest, seconds)
            shown = Group(panel, cluster_panel(live)) if live else panel
            self._live.update(shown, refresh=self._is_blank)  # the first panel at once
            self._is_blank = False
        elif latest and latest["frames"] != self._num_lines:
            self._num_lines = latest["frames"]
            self._console.print(self._line(latest), markup=False, highlight=False, soft_wrap=True)

    def _remaining(self, frames: int, latest: dict[str, Any]) -> str:
        rate = latest.get("frames_per_second", 0.0)
        left = max(0, self._config.run.frames - frames)  # the last steps may exceed the total
        return duration(left / rate) if rate > 0 else "unknown"

    def _line(self, row: dict[str, Any]) -> str:
        fields = [
            f"frames {row['frames']:,}",
            f"{row['frames_per_second']:,.0f}/s",
            f"updates {row['updates']:,}",
            f"left {self._remaining(row['frames'], row)}",
        ]
        names = {
            "episode/return": "return",
            "evaluator/return": "evaluator",
            "evaluator/best_arm": "best arm",
            "reward/intrinsic": "intrinsic",
            "loss/extrinsic": "loss e",
            "loss/intrinsic": "loss i",
            "loss/joint": "loss",
        }
        fields += [f"{label} {row[name]:.4g}" for name, label in names.items() if name in row]
        return "  ".join(fields)

    def _panel(
        self, counters: dict[str, int], latest: dict[str, Any], seconds: float
    ) -> RenderableType:
        frames, total = counters["frames"], self._config.run.frames
        table = Table.grid(padding=(0, 3))
        for _ in range(2):
            table.add_column(style="dim")
            table.add_column(justify="right")

        def shown(name: str, pattern: str = "{:,.4g}") -> str:
            return pattern.format(latest[name]) if name in latest else "-"

        beta, gamma = shown("evaluator/best_beta"), shown("evaluator/best_gamma", "{:.6g}")
        best_arm = f"{shown('evaluator/best_arm', '{:.0f}')} (beta {beta}, gamma {gamma})"
        losses = [n for n in latest if n.startswith("loss/")]
        rows = [
            (
                "frames",
                f"{frames:,} / {total:,}",
                "frames/s",
                shown("frames_per_second", "{:,.0f}"),
            ),
            ("updates", f"{counters['updates']:,}", "time left", self._remaining(frames, latest)),
            (
                "elapsed",
                duration(seconds),
                "transitions kept",
                shown("replay/transitions", "{:,.0f}"),
            ),
            (
                "episode return",
                shown("episode/return"),
                "evaluator mean",
                shown("evaluator/return"),
            ),
            ("best arm", best_arm, "intrinsic reward", shown("reward/intrinsic")),
        ]
        rows += [
            (first, shown(first), second, shown(second) if second else "")
            for first, second in zip(losses[::2], [*losses[1::2], ""], strict=False)
        ]
        for row in rows:
            table.add_row(*row)
        # Padded, because a bare bar does not end its line and the first row would vanish in it.
        bar = Padding(ProgressBar(total=total, completed=frames), 0)
        return Panel(Group(bar, table), title=Text(self._title), title_align="left")


def cluster_panel(live: dict[str, float]) -> RenderableType:
    """Show which parts of a cluster work, which part waits, and what was lost."""

    def shown(name: str, pattern: str = "{:,.0f}") -> str:
        return pattern.format(live[f"cluster/{name}"]) if f"cluster/{name}" in live else "-"

    table = Table.grid(padding=(0, 3))
    for _ in range(3):
        table.add_column(style="dim")
        table.add_column(justify="right")
    if live.get("cluster/actors_held_back"):
        limiter = "actors wait for the learner"
    elif live.get("cluster/updates_under_way"):
        limiter = "nobody waits"
    else:
        limiter = "the learner waits for windows"
    names = ("actor", "evaluator", "shard", "learner")
    restarts = " / ".join(shown(f"{name}_restarts") for name in names)
    rows = [
        ("actors playing", "actors_playing"),
        ("held back", "actors_held_back"),
        ("without a place", "actors_without_place"),
        ("updates under way", "updates_under_way"),
        ("adds under way", "adds_under_way"),
        ("lost transitions", "lost_transitions"),
    ]
    cells = [(label, shown(name)) for label, name in rows]
    cells += [
        ("samples per insert", shown("samples_per_insert", "{:.3f}")),
        ("lost updates", shown("lost_updates")),
        (f"restarts ({', '.join(names)})", restarts),
    ]
    for row in zip(cells[::3], cells[1::3], cells[2::3], strict=True):
        table.add_row(*(text for cell in row for text in cell))
    prefix = "cluster/frames_per_second/"
    actors = [name.removeprefix(prefix) for name in live if name.startswith(prefix)]
    lines = [
        f"{index}: {shown(f'frames_per_second/{index}')} frames/s, "
        f"weights {shown(f'weights_age/{index}')} old"
        for index in actors[:ACTORS_SHOWN]
    ]
    if len(actors) > ACTORS_SHOWN:
        lines.append(f"and {len(actors) - ACTORS_SHOWN} more, all in metrics.jsonl")
    return Panel(Group(table, *lines), title=f"cluster: {limiter}", title_align="left")
