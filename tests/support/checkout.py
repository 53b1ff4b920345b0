"""Makes what only a checkout has, `benchmarks`, importable; import this first."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# At the end: the package that is tested is the installed one.
sys.path.append(str(ROOT))
