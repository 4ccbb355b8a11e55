"""The panel beside a filmed game: score, arm, action values of the networks, novelty.

Pillow draws a picture in a millisecond or two. Colours are those of the report.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from agent57.types import Played

PANEL = 300  # pixels wide
MIN_HEIGHT, MAX_HEIGHT = 420, 640  # pixels of the whole picture
MARGIN = 14
HISTORY = 150  # steps of the novelty sparkline

BACKGROUND = (17, 20, 26)
TRACK = (38, 43, 54)
TEXT = (228, 231, 238)
DIM = (140, 148, 164)
NETWORKS = (("extrinsic", (86, 156, 255)), ("intrinsic", (255, 159, 67)))
JOINT = (("joint", (86, 156, 255)),)
NOVELTY = (110, 211, 140)


def enlarge(picture: np.ndarray) -> np.ndarray:
    """Enlarge a small picture by a whole factor, so that its pixels stay sharp."""
    height, width = picture.shape[:2]
    factor = max(1, min(MIN_HEIGHT // height, 480 // width))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


class Overlay:
    """Draws the panel of one episode."""

    def __init__(self, title: str, caption: str) -> None:
        self.action_names: Sequence[str] = ()  # numbers where there are none
        self._title = title
        self._caption = caption
        self._novelty: deque[float] = deque(maxlen=HISTORY)
        self._score = 0.0
        self._num_steps = 0
        self._large = ImageFont.load_default(30)
        self._medium = ImageFont.load_default(14)
        self._small = ImageFont.load_default(12)

    def draw(self, picture: np.ndarray, played: Played, novelty: float | None) -> np.ndarray:
        """Return the game with the panel at its right, for one step of lane 0."""
        game = enlarge(picture)
        num_actions = played.value.shape[-1]
        height = max(game.shape[0], MIN_HEIGHT, min(MAX_HEIGHT, 220 + 8 * num_actions))
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
        self._draw_values(pen, played, (left, 88, right, bottom))
        if self._novelty:
            self._draw_novelty(pen, (left, height - 76, right, height - 12))

        self._score += float(played.extrinsic[0])
        self._num_steps += 1
        return np.asarray(canvas)

    def _draw_values(
        self, pen: ImageDraw.ImageDraw, played: Played, box: tuple[int, int, int, int]
    ) -> None:
        """Draw a bar per action and network, from the network's worst action to its best."""
        left, top, right, bottom = box
        values, chosen = played.value[:, 0], int(played.action[0])  # [V, A]
        networks = NETWORKS if len(values) == 2 else JOINT
        for (name, colour), row in zip(networks, values, strict=True):
            pen.text((left, top), f"Q {name}", colour, self._small)
            pen.text((right, top), f"{row.min():.4g} to {row.max():.4g}", colour, self._small, "ra")
            top += 16
        top += 4
        pitch = min(22.0, (bottom - top) / values.shape[1])
        thickness = max(1.0, (pitch - 2) / len(values))
        span = np.maximum(values.max(1) - values.min(1), 1e-9)
        names = self.action_names or [str(action) for action in range(values.shape[1])]
        indent = 8 + max(pen.textlength(name, self._small) for name in names)
        for action in range(values.shape[1]):
            y = top + action * pitch
            if action == chosen:
                pen.rectangle((left - 4, y - 1, right + 2, y + pitch - 1), TRACK)
            colour = TEXT if action == chosen else DIM
            pen.text((left, y + pitch / 2 - 1), names[action], colour, self._small, anchor="lm")
            for v, (_, colour) in enumerate(networks):
                share = float((values[v, action] - values[v].min()) / span[v])
                end = left + indent + share * (right - left - indent)
                bar = (left + indent, y + v * thickness, end, y + (v + 1) * thickness - 1)
                pen.rectangle(bar, colour)

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
