"""Figures for results: drawn with matplotlib, without a display."""

from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

COLOURS = ("#3b6fb6", "#d1603d", "#4f9d69", "#8b5fbf")

Bars = dict[str, list[list[float]]]  # name of a bar -> for each group, a value per seed


def grouped_bars(
    panels: dict[str, Bars],
    *,
    groups: list[str],
    x_label: str,
    y_label: str,
    note: str,
    files: list[Path],
) -> None:
    """One panel under another; bars are means over seeds, lines reach from lowest to highest."""
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(6.4, 2.6 * len(panels)), sharex=True, squeeze=False
    )
    place = np.arange(len(groups))
    for axis, (title, bars) in zip(axes[:, 0], panels.items(), strict=True):
        width = 0.8 / len(bars)
        for index, (name, values) in enumerate(bars.items()):
            mean = np.array([np.mean(seeds) for seeds in values])
            low = mean - np.array([np.min(seeds) for seeds in values])
            high = np.array([np.max(seeds) for seeds in values]) - mean
            offset = (index - (len(bars) - 1) / 2) * width
            axis.bar(
                place + offset,
                mean,
                width,
                yerr=[low, high],
                capsize=3,
                label=name,
                color=COLOURS[index % len(COLOURS)],
            )
        axis.set_title(title, loc="left", fontsize=10)
        axis.set_ylabel(y_label)
        axis.set_ylim(0, 1.05)
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(frameon=False, fontsize=8, ncols=len(bars), loc="lower left")
    axes[-1, 0].set_xticks(place, groups)
    axes[-1, 0].set_xlabel(x_label)
    figure.text(0.01, 0.005, note, fontsize=6.5, color="#555555")
    figure.tight_layout(rect=(0, 0.02, 1, 1))
    for file in files:
        figure.savefig(file, dpi=150)
    plt.close(figure)
