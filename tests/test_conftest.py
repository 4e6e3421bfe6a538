"""The conditions that other tests rely on without saying so."""

import torch


def test_uninitialised_memory_is_poisoned() -> None:
    """Goes red when conftest stops poisoning any one of the four makers, or a kind of number."""
    like = torch.zeros(3)
    makers = [torch.empty(3), torch.empty_like(like), torch.empty_strided((3,), (1,)), like.new_empty(3)]
    assert all(memory.isnan().all() for memory in makers)
    assert torch.empty(3, dtype=torch.int32).eq(2**31 - 1).all()


def test_torch_runs_on_one_thread() -> None:
    """Goes red when conftest leaves the number of threads to torch."""
    assert torch.get_num_threads() == 1


def test_gpu_tests_have_their_marker(pytestconfig) -> None:
    """Goes red when a marker is renamed in pyproject.toml: --strict-markers would then refuse the tests that use it."""
    declared = {line.split(":")[0] for line in pytestconfig.getini("markers")}
    assert {"gpu", "slow"} <= declared
    assert pytestconfig.getoption("strict_markers")
