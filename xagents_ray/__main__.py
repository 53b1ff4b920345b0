"""`python -m xagents_ray` and the command `xagents-ray`."""

import os
import sys

# Python puts the working directory first, where a download may have a module of any
# name; `importing_from_here` imports from it only what the user or a run names.
if sys.path[:1] == [os.getcwd()] and not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from xagents_ray.commands.cli import main

if __name__ == "__main__":
    main()
