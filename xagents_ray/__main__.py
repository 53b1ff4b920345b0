"""`python -m xagents_ray` and the command `xagents-ray`."""

from xagents_ray.commands.cli import main

if __name__ == "__main__":
    main()
