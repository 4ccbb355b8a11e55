"""Writes the records of a run as CSV, for spreadsheets and data frames."""

import csv
import io
from pathlib import Path

from agent57.config import ConfigError, require
from agent57.storage.files import write_atomic
from agent57.storage.folder import CONFIG_FILE
from agent57.storage.history import read_whole_lines

TABLES = ("metrics", "episodes")


def export_csv(path: Path, table: str, file: Path) -> tuple[int, list[str]]:
    """Write one table of a run as CSV; return its number of rows and what could not be read.

    Each scalar is a column. Its cell is empty in rows that lack the scalar.
    """
    require(table in TABLES, f"--table {table!r} is not one of {', '.join(TABLES)}")
    require((path / CONFIG_FILE).is_file(), f"{path} holds no run: {CONFIG_FILE} is missing")
    rows, damage = read_whole_lines(path / f"{table}.jsonl")
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(file, text.getvalue().encode())
    except OSError as error:
        raise ConfigError(f"--csv {file} cannot be written: {error.strerror}") from None
    return len(rows), damage
