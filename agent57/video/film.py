"""Films an episode: the game in colour, with the agent's values and novelty beside it.

MP4 needs the ffmpeg of `imageio-ffmpeg` (the `report` extra), GIF needs Pillow. The caller plays
the game.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from agent57.config import ConfigError, require
from agent57.storage.folder import check_output
from agent57.types import Played
from agent57.video.overlay import Overlay, enlarge

FORMATS = (".mp4", ".gif")
MAX_GIF_FRAMES = 900  # a GIF is held in memory, so its length needs a limit


def check_video(file: Path) -> None:
    """Refuse a video file that cannot be written, before any episode is played."""
    require(file.suffix in FORMATS, f"--video {file} must end in {' or '.join(FORMATS)}")
    if file.suffix == ".mp4":
        _ffmpeg()
    folder = file.parent
    require(
        folder.is_dir(), f"--video {file} cannot be written: the folder {folder} does not exist"
    )
    check_output("--video", file)
    is_new = not os.path.lexists(file)
    require(is_new or file.is_file(), f"--video {file} cannot be written: it is not a plain file")


def _ffmpeg() -> Any:  # noqa: ANN401
    try:
        import imageio_ffmpeg

        imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):
        raise ConfigError(
            "--video as MP4 needs imageio-ffmpeg: pip install 'agent57[report]', or write a .gif"
        ) from None
    return imageio_ffmpeg


class Writer(Protocol):
    """Writes pictures one after another to a file."""

    def add(self, picture: np.ndarray) -> None:
        """Add a picture, [Y, X, 3] uint8. All pictures have the same size."""
        ...

    def close(self) -> None:
        """Finish the file."""
        ...


class Mp4Writer:
    """Writes H.264 that every browser plays."""

    def __init__(self, file: Path, fps: int) -> None:
        self._file = file
        self._fps = fps
        self._stream: Generator[None, bytes | None, None] | None = None

    def add(self, picture: np.ndarray) -> None:
        """Add a picture."""
        if self._stream is None:
            height, width = picture.shape[:2]
            self._stream = _ffmpeg().write_frames(
                str(self._file),
                (width, height),
                fps=self._fps,
                codec="libx264",
                macro_block_size=1,
                ffmpeg_log_level="error",
                output_params=["-crf", "23", "-preset", "veryfast", "-movflags", "+faststart"],
            )
            self._stream.send(None)
        self._stream.send(np.ascontiguousarray(picture).tobytes())

    def close(self) -> None:
        """Finish the file."""
        if self._stream is not None:
            self._stream.close()


class GifWriter:
    """Writes the first pictures of an episode, up to `MAX_GIF_FRAMES`."""

    def __init__(self, file: Path, fps: int) -> None:
        self._file = file
        self._fps = fps
        self._pictures: list[Image.Image] = []

    def add(self, picture: np.ndarray) -> None:
        """Add a picture, unless the limit is reached."""
        if len(self._pictures) < MAX_GIF_FRAMES:
            image = Image.fromarray(picture)
            self._pictures.append(
                image.quantize(128, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
            )

    def close(self) -> None:
        """Write the file."""
        if self._pictures:
            first, *rest = self._pictures
            milliseconds = round(1000 / self._fps)
            first.save(self._file, save_all=True, append_images=rest, duration=milliseconds, loop=0)


class EpisodeCamera:
    """Films one episode, with or without the overlay."""

    def __init__(
        self, file: Path, overlay: Overlay | None, first_picture: np.ndarray, fps: int
    ) -> None:
        self._file = file
        self._overlay = overlay
        self._picture = first_picture
        self._num_frames = 0
        self._writer: Writer
        self._writer = Mp4Writer(file, fps) if file.suffix == ".mp4" else GifWriter(file, fps)

    def see(
        self,
        played: Played,
        novelty: float | None,
        next_picture: np.ndarray,
        policy: np.ndarray | None = None,
    ) -> None:
        """Film the picture that lane 0 acted on, with its values, and keep the next picture.

        policy: probabilities [A] of the distilled policy, if the agent has one
        """
        if self._overlay is None:
            picture = enlarge(self._picture)
        else:
            picture = self._overlay.draw(self._picture, played, novelty, policy)
        try:
            self._writer.add(even(picture))
        except OSError as error:  # ffmpeg has ended
            raise _unwritable(self._file, error) from None
        self._num_frames += 1
        self._picture = next_picture

    def close(self) -> None:
        """Finish the file."""
        try:
            self._writer.close()
        except OSError as error:
            raise _unwritable(self._file, error) from None

    @property
    def description(self) -> str:
        """Say how much was filmed."""
        if self._file.suffix == ".gif" and self._num_frames > MAX_GIF_FRAMES:
            return f"the first {MAX_GIF_FRAMES} of {self._num_frames} steps; .mp4 holds them all"
        return f"one episode, {self._num_frames} steps"


def _unwritable(file: Path, error: OSError) -> ConfigError:
    """Return a one-line error about a film; ffmpeg gives the reason in its last line."""
    lines = str(error.strerror or error).strip().splitlines() or [type(error).__name__]
    return ConfigError(f"--video {file} cannot be written: {lines[-1]}")


def even(picture: np.ndarray) -> np.ndarray:
    """Pad the picture to even sides, which H.264 needs."""
    height, width = picture.shape[:2]
    return np.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)))
