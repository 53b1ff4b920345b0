"""The start of Ray that `doctor` times."""

import pytest

from xagents_ray.commands.doctor import this_machine


@pytest.mark.slow
def test_doctor_times_a_start_of_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(this_machine, "_RAY_SECONDS", 60.0)
    *_, row = this_machine.examine_machine()
    assert (row.name, row.verdict) == ("Ray", "ok")
    assert row.found.startswith("starts in ")
