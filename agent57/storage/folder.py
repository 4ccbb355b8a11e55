"""The run folder: its configuration, its growing journals, and the lock that guards them."""

import fcntl
import json
import os
from pathlib import Path
from typing import Any

from agent57.config import Config, ConfigError, from_dict, require, to_dict
from agent57.storage.files import not_followed, open_plain, write_atomic
from agent57.storage.growing import check_open, close_own, identity
from agent57.storage.journal_file import JournalFile
from agent57.storage.segments import SEGMENT_BYTES

CONFIG_FILE = "config.json"
CHECKPOINTS = "checkpoints"
LOCK = ".lock"
# Size in bytes at which a journal is sealed and compressed. Metrics stay in one file, because they
# grow slowly and readers look up lines in the middle.
SEALED_AT = {"metrics.jsonl": None, "episodes.jsonl": SEGMENT_BYTES}
JOURNALS = tuple(SEALED_AT)
MAX_CONFIG_BYTES = 1_000_000


def check_json(file: Path) -> None:
    """Make the folder of the file that --json names; refuse a file that cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--json {file} cannot be written: {error.strerror}") from None
    check_output("--json", file)


def check_output(option: str, file: Path) -> None:
    """Refuse a file, named by an option, that cannot be written."""
    try:
        require(not file.is_dir(), f"{option} {file} cannot be written: it is a folder")
        place = file if file.exists() else file.parent
    except OSError as error:  # such as a name that is too long
        raise ConfigError(f"{option} {file} cannot be written: {error.strerror}") from None
    require(os.access(place, os.W_OK), f"{option} {file} cannot be written: permission denied")


def write_json(file: Path, values: dict[str, Any]) -> None:
    """Write values to the file that --json names."""
    check_json(file)
    try:
        file.write_text(json.dumps(values, indent=2, allow_nan=False) + "\n", "utf-8")
    except OSError as error:
        raise ConfigError(f"--json {file} cannot be written: {error.strerror}") from None


def read_config(path: Path) -> Config:
    """Return the configuration of a run."""
    file = path / CONFIG_FILE
    require(path.exists(), f"{path} does not exist")
    require(file.is_file(), f"{path} holds no run: {CONFIG_FILE} is missing")
    return read_config_file(file)


def read_config_file(file: Path) -> Config:
    """Return the configuration in a file; errors are a `ConfigError` that names the file."""
    try:
        with open_plain(file) as opened:
            content = opened.read(MAX_CONFIG_BYTES + 1)
        require(len(content) <= MAX_CONFIG_BYTES, "far too large for a configuration")
        return from_dict(json.loads(content))
    except ConfigError as error:
        raise ConfigError(f"{file}: {error}") from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(f"{file} is damaged: {error}") from None
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}") from None


class RunFolder:
    """An open run. Only one process may hold it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Not flock: processes of environments would inherit the lock and may outlive the run.
            self._lock = open(path / LOCK, "ab", buffering=0, opener=not_followed)  # noqa: SIM115
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._identity = identity(os.fstat(self._lock.fileno()))
            self._journals = {name: JournalFile(path / name, n) for name, n in SEALED_AT.items()}
        except BlockingIOError:
            raise ConfigError(f"{path} is in use by another agent57 process") from None
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from None

    @classmethod
    def create(cls, path: Path, config: Config) -> "RunFolder":
        """Make a new run folder that holds its configuration."""
        check_free(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            folder = cls(path)
            check_free(path)  # again: another process may have been quicker
            folder.write_config(config)
        except OSError as error:
            raise ConfigError(f"--out {path} cannot be written: {error.strerror}") from None
        return folder

    def check(self) -> None:
        """Raise `RunFolderLost` if the folder or one of its files was removed or moved."""
        check_open(self._lock.fileno(), self._identity, self.path / LOCK)
        for journal in self._journals.values():
            journal.check()

    def write_config(self, config: Config) -> None:
        """Replace the configuration in one step."""
        write_atomic(self.path / CONFIG_FILE, json.dumps(to_dict(config), indent=2).encode())

    def append(self, name: str, row: dict[str, Any]) -> None:
        """Add one object to a journal."""
        self._journals[name].append(json.dumps(row).encode() + b"\n")

    def flush(self) -> dict[str, int]:
        """Write out lines that wait in memory; return the sizes of the journals in bytes."""
        return {name: journal.flush() for name, journal in self._journals.items()}

    def sync(self) -> None:
        """Bring flushed lines to disk."""
        for journal in self._journals.values():
            journal.sync()

    def checksums(self) -> dict[str, int]:
        """Return the CRC-32 of each journal as it was flushed."""
        return {name: journal.checksum for name, journal in self._journals.items()}

    def cut_back(self, sizes: dict[str, int], checksums: dict[str, int] | None = None) -> list[str]:
        """Cut the journals back to these sizes; return what is wrong with them."""
        known = checksums or {}
        found = [self._journals[name].cut_back(n, known.get(name)) for name, n in sizes.items()]
        return [text for text in found if text]

    def start_over(self) -> None:
        """Empty the journals of a run that was stopped before its first checkpoint."""
        require(
            self._journals["metrics.jsonl"].flush() == 0,
            f"{self.path} has records but no checkpoint: none could be written, as on a full "
            f"disk, or {CHECKPOINTS} was removed; train anew in another folder",
        )
        self.cut_back(dict.fromkeys(JOURNALS, 0))

    def close(self) -> None:
        """Close the journals and unlock the folder."""
        for journal in self._journals.values():
            journal.close()
        close_own(self._lock, self._identity)


def check_free(path: Path) -> None:
    """Refuse a folder that already holds a run."""
    require(
        not (path / CONFIG_FILE).exists(),
        f"--out {path} already holds a run: continue it with `agent57 resume {path}` "
        f"or choose another folder",
    )
    require(
        not (path / CHECKPOINTS).exists(),
        f"--out {path} holds the checkpoints of a run without its {CONFIG_FILE}: "
        f"choose another folder",
    )
    require(not path.exists() or path.is_dir(), f"--out {path} is a file, not a folder")
