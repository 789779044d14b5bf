"""`python -m casehub` is the command `casehub`."""

from casehub.cli import main

if __name__ == "__main__":
    main()
