"""python -m agent57."""

from agent57.cli import main

if __name__ == "__main__":
    main()
