"""`python -m crmhub`, for where the command `crmhub` is not on the path."""

from crmhub.cli import main

if __name__ == "__main__":
    main(prog_name="crmhub")
