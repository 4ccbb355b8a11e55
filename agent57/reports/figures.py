"""Draws figures as PNG and SVG with matplotlib, without a display."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

COLOURS = ("#3b6fb6", "#d1603d", "#4f9d69", "#8b5fbf")
NOT_PLAYED = "#e9e7e2"  # not in HEAT, so that it is not mistaken for a low value
HEAT = LinearSegmentedColormap.from_list("heat", ["#d9e8fb", "#2f6fc4", "#08264f"])
BAND = "line: mean over seeds; band: lowest to highest seed"

Bar = tuple[float, float, float]  # height of the bar, lower and upper end of its error line
Bars = dict[str, list[Bar]]  # name -> a bar per group
Curves = dict[str, list[tuple[np.ndarray, np.ndarray]]]  # name -> per seed, x and y; nan: unknown


def grouped_bars(
    panels: dict[str, Bars],
    *,
    groups: list[str],
    x_label: str,
    y_label: str,
    note: str,
    files: list[Path],
) -> None:
    """Draw panels below each other, each with one bar per name and group."""
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(6.4, 2.6 * len(panels)), sharex=True, squeeze=False
    )
    place = np.arange(len(groups))
    for axis, (title, bars) in zip(axes[:, 0], panels.items(), strict=True):
        width = 0.8 / len(bars)
        for index, (name, values) in enumerate(bars.items()):
            mean, low, high = np.array(values).T
            offset = (index - (len(bars) - 1) / 2) * width
            axis.bar(
                place + offset,
                mean,
                width,
                # By a rounding error, the mean of equal numbers may lie outside their range.
                yerr=np.maximum([mean - low, high - mean], 0.0),
                capsize=3,
                label=name,
                color=COLOURS[index % len(COLOURS)],
            )
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylabel(y_label)
        axis.set_ylim(0, 1.05)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(
            frameon=False, fontsize=8, ncols=len(bars), loc="lower right", bbox_to_anchor=(1, 1)
        )
    axes[-1, 0].set_xticks(place, groups)
    axes[-1, 0].set_xlabel(x_label)
    _save(figure, note, files)


def learning_curves(
    curves: Curves,
    *,
    lines: dict[str, float],
    x_label: str,
    y_label: str,
    note: str,
    files: list[Path],
) -> None:
    """Draw one line per name: the mean over its seeds, with a band over their range.

    `lines` are named reference levels.
    """
    figure, axis = plt.subplots(figsize=(6.4, 3.8))
    has_bands = _draw_curves(axis, curves)
    for name, level in lines.items():
        axis.axhline(level, color="#555555", linewidth=0.8, linestyle=":")
        axis.annotate(name, (0.995, level), xycoords=("axes fraction", "data"), ha="right",
                      va="bottom", fontsize=7, color="#555555")  # fmt: skip
    axis.set_xlabel(x_label)
    axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axis.set_ylabel(y_label)
    axis.set_xlim(left=0)
    axis.spines[["top", "right"]].set_visible(False)
    _legend_above(axis)
    _save(figure, f"{note}; {BAND}" if has_bands else note, files)


def _legend_above(axis: Axes) -> None:
    """Put the legend above the axes, where it does not overlap any line."""
    axis.legend(
        frameon=False, fontsize=8, ncols=3, loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0
    )


def curve_grid(
    panels: dict[str, dict[str, Curves]], *, x_label: str, note: str, files: list[Path]
) -> None:
    """Draw a grid of panels with curves: a row per name, a column per quantity."""
    columns = list(next(iter(panels.values())))
    figure, axes = plt.subplots(
        len(panels), len(columns), figsize=(3.4 * len(columns), 2.4 * len(panels)), squeeze=False
    )
    for row, (name, curves_by_title) in zip(axes, panels.items(), strict=True):
        for axis, (title, curves) in zip(row, curves_by_title.items(), strict=True):
            _draw_curves(axis, curves)
            axis.set_title(f"{name}: {title}", loc="left", fontsize=7)
            axis.set_xlabel(x_label, fontsize=7)
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
            axis.tick_params(labelsize=7)
            axis.set_xlim(left=0)
            axis.spines[["top", "right"]].set_visible(False)
        row[0].legend(frameon=False, fontsize=7)
    _save(figure, note, files)


def _draw_curves(axis: Axes, curves: Curves) -> bool:
    """Draw the mean over seeds of each name, with a band for several; return if there is a band."""
    has_bands = False
    for index, (name, seeds) in enumerate(curves.items()):
        known = [(x[~np.isnan(y)], y[~np.isnan(y)]) for x, y in seeds if (~np.isnan(y)).any()]
        if not known:
            continue
        x = np.unique(np.concatenate([seed_x for seed_x, _ in known]))
        y = np.stack([np.interp(x, seed_x, seed_y) for seed_x, seed_y in known])
        colour = COLOURS[index % len(COLOURS)]
        axis.plot(x, y.mean(0), color=colour, label=name)
        if len(known) > 1:
            has_bands = True
            axis.fill_between(x, y.min(0), y.max(0), color=colour, alpha=0.2, linewidth=0)
    return has_bands


def arm_heat_maps(
    maps: dict[str, dict[str, np.ndarray]],
    *,
    best_arms: dict[str, np.ndarray],
    arms: list[str],
    max_frames: float,
    x_label: str,
    note: str,
    files: list[Path],
) -> None:
    """Draw a grid of heat maps over training: a row per name, a column per quantity.

    Each map has a row per arm. Maps are [bins, arms], nan where an arm was not played. A name's
    `best_arms` [bins] is drawn as steps, nan where unknown. All maps of a quantity share one colour
    scale, which starts at 0 unless there are negative values.
    """
    columns = list(next(iter(maps.values())))
    height = 1.2 + 0.9 * min(max(len(arms) / 8, 1.5), 4)
    figure, axes = plt.subplots(
        len(maps), len(columns), figsize=(4.6 * len(columns), height * len(maps)), squeeze=False
    )
    scales = {column: _scale([panels[column] for panels in maps.values()]) for column in columns}
    ticks = np.unique(np.linspace(0, len(arms) - 1, min(len(arms), 8)).round().astype(int))
    for row, (name, panels) in zip(axes, maps.items(), strict=True):
        for axis, (title, values) in zip(row, panels.items(), strict=True):
            extent = (0, max_frames, len(arms) - 0.5, -0.5)
            low, high = scales[title]
            axis.set_facecolor(NOT_PLAYED)
            image = axis.imshow(
                values.T,
                aspect="auto",
                extent=extent,
                cmap=HEAT,
                interpolation="nearest",
                vmin=low,
                vmax=high,
            )
            figure.colorbar(image, ax=axis, pad=0.02)
            best = best_arms[name]
            edges = np.linspace(0, max_frames, len(best) + 1)
            axis.stairs(
                best, edges, baseline=None, color=COLOURS[1], linewidth=1.5, label="best arm"
            )
            axis.set_title(f"{name}: {title}", loc="left", fontsize=9)
            axis.set_xlabel(x_label)
            axis.xaxis.set_major_locator(MaxNLocator(4))
            axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        row[0].set_yticks(ticks, [arms[tick] for tick in ticks], fontsize=7)
        for axis in row[1:]:
            axis.set_yticks(ticks, [str(tick) for tick in ticks], fontsize=7)
    axes[0, -1].legend(
        fontsize=7, frameon=False, loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0
    )
    _save(figure, f"{note}; grey: not played", files)


def _scale(panels: list[np.ndarray]) -> tuple[float, float]:
    """Return the ends of a colour scale for some maps: from 0, or from the lowest if negative."""
    known = np.concatenate([panel[np.isfinite(panel)] for panel in panels])
    low, high = min(0.0, *known.tolist(), 0.0), max(0.0, *known.tolist(), 0.0)
    return low, high if high > low else low + 1.0


def training_curves(
    panels: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]],
    *,
    lines: dict[str, float],
    x_label: str,
    note: str,
    files: list[Path],
) -> None:
    """Draw panels below each other, each with a line per name.

    `lines` are reference levels by panel.
    """
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(6.4, 2.9 * len(panels)), sharex=True, squeeze=False
    )
    for axis, (title, curves) in zip(axes[:, 0], panels.items(), strict=True):
        for index, (name, (x, y)) in enumerate(curves.items()):
            colour = COLOURS[index % len(COLOURS)]
            axis.step(x, y, where="post", color=colour, label=name, linewidth=1.4)
        axis.set_ylabel(title)
        axis.spines[["top", "right"]].set_visible(False)
        if title in lines:
            axis.axhline(lines[title], color="#555555", linewidth=0.8, linestyle=":")
        _legend_above(axis)
    axes[-1, 0].set_xlabel(x_label)
    axes[-1, 0].set_xlim(left=0)
    axes[-1, 0].xaxis.set_major_formatter(EngFormatter(sep=""))
    _save(figure, note, files)


def game_maps(
    panels: dict[str, dict[str, np.ndarray]],
    *,
    max_x: float,
    x_label: str,
    unit: str,
    note: str,
    files: list[Path],
) -> None:
    """Draw heat maps below each other: a row per game, values over training, nan if unknown."""
    rows = [len(games) for games in panels.values()]
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(6.4, sum(rows) * 0.16 + 1.1 * len(panels) + 0.3), squeeze=False,
        gridspec_kw={"height_ratios": [max(count, 2) for count in rows]},
    )  # fmt: skip
    known = [np.stack(list(games.values())) for games in panels.values()]
    low, high = _scale(known)
    for axis, (title, games), values in zip(axes[:, 0], panels.items(), known, strict=True):
        axis.set_facecolor(NOT_PLAYED)
        image = axis.imshow(
            values, aspect="auto", extent=(0, max_x, len(games) - 0.5, -0.5), cmap=HEAT,
            interpolation="nearest", vmin=low, vmax=high,
        )  # fmt: skip
        ticks = MaxNLocator(integer=True, nbins=6)
        figure.colorbar(image, ax=axis, pad=0.02, label=unit, ticks=ticks)
        axis.set_title(title, loc="left", fontsize=9)
        axis.set_yticks(range(len(games)), list(games), fontsize=7)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes[-1, 0].set_xlabel(x_label)
    _save(figure, note, files)


def target_bars(
    shares: dict[str, dict[str, float]], *, note: str, files: list[Path], limit: float = 1.5
) -> None:
    """Draw horizontal bars: a group per task, a bar per name, and a line at the target, 1."""
    tasks = list(dict.fromkeys(task for bars in shares.values() for task in bars))
    place = np.arange(len(tasks))[::-1]  # the first task on top
    figure, axis = plt.subplots(figsize=(7.2, 1.2 + 0.45 * len(tasks)))
    height = 0.8 / len(shares)
    for index, (name, bars) in enumerate(shares.items()):
        widths = np.clip([bars.get(task, np.nan) for task in tasks], -0.25, limit)
        offset = ((len(shares) - 1) / 2 - index) * height
        axis.barh(place + offset, widths, height, label=name, color=COLOURS[index % len(COLOURS)])
    axis.axvline(1.0, color="#555555", linewidth=0.8, linestyle=":")
    axis.axvline(0.0, color="#555555", linewidth=0.8)
    axis.set_yticks(place, tasks, fontsize=8)
    axis.set_ylim(-0.5, len(tasks) - 0.5)
    axis.set_xlabel("score: 0 is random play, 1 is the target")
    axis.set_xlim(-0.25, limit)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, ncols=len(shares), loc="lower right",
                bbox_to_anchor=(1, 1))  # fmt: skip
    _save(figure, note, files)


def relative_bars(
    panels: dict[str, dict[str, list[tuple[float, float]]]],
    *,
    groups: list[str],
    note: str,
    files: list[Path],
) -> None:
    """Draw a panel per title: a bar with standard error per name and group, on a log scale."""
    figure, axes = plt.subplots(len(panels), 1, figsize=(7.2, 3.0 * len(panels)), squeeze=False)
    place = np.arange(len(groups))
    for axis, (title, bars) in zip(axes[:, 0], panels.items(), strict=True):
        width = 0.8 / len(bars)
        for index, (name, values) in enumerate(bars.items()):
            mean, error = np.array(values).T
            offset = (index - (len(bars) - 1) / 2) * width
            colour = plt.get_cmap("tab10")(index)
            axis.bar(place + offset, mean, width, yerr=np.nan_to_num(error), label=name,
                     color=colour, capsize=2)  # fmt: skip
        axis.axhline(1.0, color="#555555", linewidth=0.8, linestyle=":")
        axis.set_yscale("log")
        axis.set_title(title, loc="left", fontsize=9)
        axis.set_xticks(place, groups, fontsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=6, ncols=2)
    _save(figure, note, files)


def _save(figure: Figure, note: str, files: list[Path]) -> None:
    """Write the figure to all files, with a note below it."""
    figure.text(0.01, 0.005, note, fontsize=6.5, color="#555555")
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    for file in files:
        figure.savefig(file, dpi=150)
    plt.close(figure)
