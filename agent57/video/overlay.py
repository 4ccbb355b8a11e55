"""The panel beside a filmed game: score, arm, action values, distilled policy, novelty.

Pillow draws a picture in a millisecond or two. The colours are the same as in the report.
"""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from agent57.types import Played

PANEL = 300  # pixels wide
MIN_HEIGHT, MAX_HEIGHT = 420, 640  # pixels of the whole picture
MARGIN = 14
LINE = 13  # pixels per action, if there is room
HISTORY = 150  # steps of the novelty sparkline

BACKGROUND = (17, 20, 26)
TRACK = (38, 43, 54)
TEXT = (228, 231, 238)
DIM = (140, 148, 164)
NETWORKS = (("extrinsic", (86, 156, 255)), ("intrinsic", (255, 159, 67)))
JOINT = (("joint", (86, 156, 255)),)
POLICY = (207, 140, 245)
NOVELTY = (110, 211, 140)


def enlarge(picture: np.ndarray) -> np.ndarray:
    """Enlarge a small picture by a whole factor, so that its pixels stay sharp."""
    height, width = picture.shape[:2]
    factor = max(1, min(MIN_HEIGHT // height, 480 // width))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


class Bars(NamedTuple):
    """One bar per action, with a label."""

    label: str
    scale: str  # the values at the ends of the scale
    colour: tuple[int, int, int]
    shares: Sequence[float]  # length of each action's bar, as a share of the full length


def _value_bars(played: Played) -> list[Bars]:
    """Return the bars of each network's action values, scaled from its worst to its best."""
    values = played.value[:, 0]  # [V, A]
    found = []
    for (name, colour), row in zip(NETWORKS if len(values) == 2 else JOINT, values, strict=True):
        low, high = float(row.min()), float(row.max())
        shares = (row - low) / max(high - low, 1e-9)
        found.append(Bars(f"Q {name}", f"{low:.4g} to {high:.4g}", colour, shares.tolist()))
    return found


def _policy_bar(policy: np.ndarray) -> Bars:
    """Return the bars of a policy's probabilities, from 0 to 1."""
    return Bars("policy", f"0 to 1, largest {policy.max():.2f}", POLICY, policy.tolist())


class Overlay:
    """Draws the panel of one episode."""

    def __init__(self, title: str, caption: str) -> None:
        self.action_names: Sequence[str] = ()  # empty: actions are shown as numbers
        self._title = title
        self._caption = caption
        self._novelty: deque[float] = deque(maxlen=HISTORY)
        self._score = 0.0
        self._num_steps = 0
        self._large = ImageFont.load_default(30)
        self._medium = ImageFont.load_default(14)
        self._small = ImageFont.load_default(12)

    def draw(
        self,
        picture: np.ndarray,
        played: Played,
        novelty: float | None,
        policy: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the game with the panel to its right, for one step of lane 0.

        policy: probabilities [A] of the distilled policy, if the agent has one
        """
        game = enlarge(picture)
        bars = [*_value_bars(played), *([] if policy is None else [_policy_bar(policy)])]
        needed = 176 + 16 * len(bars) + LINE * played.value.shape[-1]
        height = max(game.shape[0], MIN_HEIGHT, min(MAX_HEIGHT, needed))
        canvas = Image.new("RGB", (game.shape[1] + PANEL, height), BACKGROUND)
        canvas.paste(Image.fromarray(game), (0, (height - game.shape[0]) // 2))
        pen = ImageDraw.Draw(canvas)
        left, right = game.shape[1] + MARGIN, canvas.width - MARGIN
        if novelty is not None:
            self._novelty.append(novelty)

        pen.text((left, 10), self._title, DIM, self._medium)
        pen.text((left, 28), f"{self._score:,.6g}", TEXT, self._large)
        pen.text((right, 44), f"step {self._num_steps:,}", DIM, self._medium, anchor="ra")
        pen.text((left, 68), self._caption, DIM, self._small)
        bottom = height - (84 if self._novelty else 12)
        self._draw_bars(pen, bars, int(played.action[0]), (left, 88, right, bottom))
        if self._novelty:
            self._draw_novelty(pen, (left, height - 76, right, height - 12))

        self._score += float(played.extrinsic[0])
        self._num_steps += 1
        return np.asarray(canvas)

    def _draw_bars(
        self,
        pen: ImageDraw.ImageDraw,
        bars: Sequence[Bars],
        chosen: int,
        box: tuple[int, int, int, int],
    ) -> None:
        """Draw the bars of each action side by side; the chosen action is shaded."""
        left, top, right, bottom = box
        for bar in bars:
            pen.text((left, top), bar.label, bar.colour, self._small)
            pen.text((right, top), bar.scale, bar.colour, self._small, "ra")
            top += 16
        top += 4
        num_actions = len(bars[0].shares)
        pitch = min(22.0, (bottom - top) / num_actions)
        thickness = max(1.0, (pitch - 2) / len(bars))
        names = self.action_names or [str(action) for action in range(num_actions)]
        indent = 8 + max(pen.textlength(name, self._small) for name in names)
        for action in range(num_actions):
            y = top + action * pitch
            if action == chosen:
                pen.rectangle((left - 4, y - 1, right + 2, y + pitch - 1), TRACK)
            colour = TEXT if action == chosen else DIM
            pen.text((left, y + pitch / 2 - 1), names[action], colour, self._small, anchor="lm")
            for place, bar in enumerate(bars):
                end = left + indent + bar.shares[action] * (right - left - indent)
                start, stop = y + place * thickness, y + (place + 1) * thickness - 1
                pen.rectangle((left + indent, start, end, stop), bar.colour)

    def _draw_novelty(self, pen: ImageDraw.ImageDraw, box: tuple[int, int, int, int]) -> None:
        left, top, right, bottom = box
        label = f"episodic novelty  {self._novelty[-1]:.3g}"
        pen.text((left, top), label, NOVELTY, self._small)
        pen.text((right, top), f"last {HISTORY} steps", DIM, self._small, anchor="ra")
        top += 18
        pen.line((left, bottom, right, bottom), TRACK)
        highest = max(max(self._novelty), 1e-9)
        step = (right - left) / (HISTORY - 1)
        points = [
            (left + i * step, bottom - value / highest * (bottom - top))
            for i, value in enumerate(self._novelty)
        ]
        if len(points) > 1:
            pen.line(points, NOVELTY, width=2)
