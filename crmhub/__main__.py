"""Entry point for `python -m crmhub`, if the command `crmhub` is not on the path."""

from crmhub.cli import main

if __name__ == "__main__":
    main(prog_name="crmhub")
