"""The run folder: its configuration, its growing records, and the lock that guards them."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any, TextIO

from agent57.config import Config, ConfigError, from_dict, require, to_dict

CONFIG_FILE = "config.json"
JOURNALS = ("metrics.jsonl", "episodes.jsonl")


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader finds the old content or the new, never a part of it."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make renames inside a folder survive a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_config(path: Path) -> Config:
    """The configuration of a run."""
    file = path / CONFIG_FILE
    require(file.is_file(), f"{path} holds no run: {CONFIG_FILE} is missing")
    try:
        return from_dict(json.loads(file.read_text()))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} is damaged: {error}") from None


class RunFolder:
    """An open run. Only one process may hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = (path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise ConfigError(f"--out {path} is in use by another agent57 process") from None
        self._files: dict[str, TextIO] = {
            name: (path / name).open("a", encoding="utf-8") for name in JOURNALS
        }

    @classmethod
    def create(cls, path: Path, config: Config) -> "RunFolder":
        """A new run folder holding its configuration."""
        check_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path)
            write_atomic(path / CONFIG_FILE, json.dumps(to_dict(config), indent=2).encode())
        except OSError as error:
            raise ConfigError(f"--out {path} cannot be written: {error.strerror}") from None
        return folder

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add one object to a journal."""
        self._files[name].write(json.dumps(row) + "\n")

    def flush(self) -> dict[str, int]:
        """Bring the journals to disk; their sizes in bytes."""
        sizes = {}
        for name, file in self._files.items():
            file.flush()
            os.fsync(file.fileno())
            sizes[name] = (self.path / name).stat().st_size
        return sizes

    def cut_back(self, sizes: dict[str, int]) -> None:
        """Forget what was written to the journals after they had these sizes."""
        for name, size in sizes.items():
            self._files[name].truncate(size)

    def close(self) -> None:
        """Close the journals and give the folder free."""
        self.flush()
        for file in self._files.values():
            file.close()
        self._lock.close()


def check_free(path: Path) -> None:
    """Refuse a folder that already holds a run."""
    require(
        not (path / CONFIG_FILE).exists(),
        f"--out {path} already holds a run: continue it with `agent57 resume {path}` "
        f"or choose another folder",
    )
    require(not path.exists() or path.is_dir(), f"--out {path} is a file, not a folder")
