"""Mirrors a run to Weights & Biases by following its own records.

A thread reads new lines of metrics.jsonl, so a slow network cannot delay training. The package
wandb is optional.
"""

import json
import os
import threading
from pathlib import Path
from typing import Any

from agent57.config import Config, ConfigError, to_dict

POLL_SECONDS = 2.0


def import_wandb() -> Any:  # noqa: ANN401
    """Return the package wandb; if it is missing, raise an error that says how to install it."""
    try:
        import wandb
    except ImportError:
        raise ConfigError("--wandb needs wandb: pip install 'agent57[wandb]'") from None
    return wandb


class WandbMirror:
    """Sends each new line of a run's metrics, within a `with` block."""

    def __init__(self, path: Path, config: Config) -> None:
        self._wandb = import_wandb()
        self._path = path
        self._config = config
        self._file = path / "metrics.jsonl"
        self._offset = self._file.stat().st_size if self._file.exists() else 0
        self._run: Any = None  # begun with the first line, so a run that fails to start sends none
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="wandb", daemon=True)

    def __enter__(self) -> "WandbMirror":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        if self._run is not None:
            self._run.finish()

    def _follow(self) -> None:
        while not self._is_over.wait(POLL_SECONDS):
            self.send_new_lines()
        self.send_new_lines()

    def send_new_lines(self) -> None:
        """Send new lines since the last call. An incomplete line is sent when it is complete.

        The file may be shorter than before: resuming a run cuts off lines after its checkpoint.
        """
        if not self._file.exists():
            return
        with self._file.open("rb") as file:
            self._offset = min(self._offset, file.seek(0, os.SEEK_END))
            file.seek(self._offset)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in whole.splitlines():
            row = json.loads(line)
            self._begun().log(row, step=row["frames"])

    def _begun(self) -> Any:  # noqa: ANN401
        if self._run is None:
            self._run = self._wandb.init(
                project="agent57",
                name=self._path.name,
                group=f"{self._config.run.agent}-{self._config.env.name}",
                dir=str(self._path),
                config=to_dict(self._config),
            )
        return self._run
