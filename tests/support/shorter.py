"""What makes the programs of pages, examples and the walkthrough short."""

import re

ADDRESS = "CLUSTER"
SHORTER = {
    r"\bmax_steps=[\d_]+": "max_steps=600, jit='off'",
    r"\benv_steps < [\d_]+": "env_steps < 300",
    r"\brange\(30_000\)": "range(1_040)",
    r"\bseeds=\[[\d, ]+\]": "seeds=[1]",
    r"\bn_trials=\d+": "n_trials=1",
    r"\btrial_steps=[\d_]+": "trial_steps=600, jit='off'",
    r"\bepisodes=(10|20)\b": "episodes=2",
    r"\bn_actors=\d+": rf"\g<0>, address='{ADDRESS}'",
    r"\w+\.tune\(\n *\"\w+\",": rf"\g<0> address='{ADDRESS}',",
    r"\w+\.tune\(\n *\"dqn\",": r"\g<0> buffer_initial_size=200,",
}
"""What stands in code, and what stands there instead."""


def shortened(code: str, address: str) -> str:
    """Return a program with a short budget, and on a cluster where it uses Ray."""
    for old, new in SHORTER.items():
        code = re.sub(old, new, code)
    return code.replace(ADDRESS, address)
