"""Entry point of `python -m agent57`."""

import os
import sys
from pathlib import Path

# `python -m` searches the current folder before all installed packages. In a run folder received
# from somebody else, a file such as torch.py would be run instead of PyTorch.
if Path("config.json").exists() and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from agent57.cli import main  # noqa: E402

if __name__ == "__main__":
    main()
