"""`python -m anabranch` is the command `anabranch`."""

from anabranch.cli.main import run

if __name__ == "__main__":
    run()
