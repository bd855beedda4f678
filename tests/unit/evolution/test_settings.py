"""Tests of the settings of evolution, with their current and former names."""

import pytest

from sugarbush.evolution.settings import EvolutionSettings, Selection


@pytest.mark.parametrize("spelling", ["kernel_herding", "herded"])
def test_both_spellings_of_kernel_herding_mean_the_same_cache_key(spelling: str) -> None:
    settings = EvolutionSettings.model_validate({"selection": spelling})
    assert settings.selection is Selection.KERNEL_HERDING
    assert settings.key_settings()["selection"] == "herded"
    assert settings.model_dump(mode="json")["selection"] == "kernel_herding"
