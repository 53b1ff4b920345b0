"""Records of data are joined by the names of their fields."""

import json
import subprocess
import sys

import phases_by_name
import pytest

from xagents_ray.core.trajectory import Trajectory


@pytest.mark.slow
def test_the_order_of_fields_changes_no_number() -> None:
    """They are reversed, and there is another one in the middle."""
    command = [sys.executable, phases_by_name.__file__]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    fields, numbers = json.loads(shown)
    assert {*fields} == {*Trajectory._fields, "inserted"}
    assert fields.index("inserted") == 7 and fields[0] == "valid"
    expected = phases_by_name.phases()
    assert numbers.keys() == expected.keys()
    for agent, own in expected.items():
        assert numbers[agent] == pytest.approx(own, rel=1e-4, abs=1e-5), agent
