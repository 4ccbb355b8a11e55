"""The machine's name in records: CPU model only, nothing that identifies the machine."""

import platform
from pathlib import Path

CPU_INFO = Path("/proc/cpuinfo")


def processor() -> str:
    """Return the name of the processor as the system reports it."""
    lines = CPU_INFO.read_text().splitlines() if CPU_INFO.is_file() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine() or "unknown")
