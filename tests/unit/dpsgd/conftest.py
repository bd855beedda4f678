"""Tiny tensors: a second thread costs more than it brings, above all on a busy machine."""

import pytest
import torch


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
