"""Process-wide helpers."""

import gc

import pytest

from xagents_ray.core.process import paused_gc


@pytest.mark.parametrize("is_enabled", [True, False])
def test_collecting_is_paused_in_a_block_only(is_enabled: bool) -> None:
    try:
        if not is_enabled:
            gc.disable()
        with pytest.raises(KeyError), paused_gc():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == is_enabled
    finally:
        gc.enable()
