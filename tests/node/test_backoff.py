from hypothesis import given
from hypothesis import strategies as st

from suzent_jupyter.node import Backoff


def test_full_jitter_draws_from_zero_to_a_bound_that_doubles_up_to_thirty_seconds() -> None:
    bounds: list[tuple[float, float]] = []

    def uniform(low: float, high: float) -> float:
        bounds.append((low, high))
        return high

    backoff = Backoff(uniform=uniform)
    assert [backoff.next(0) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert {low for low, _ in bounds} == {0.0}


def test_it_starts_over_only_after_a_connection_that_lived() -> None:
    backoff = Backoff(uniform=lambda low, high: high)
    assert [backoff.next(0), backoff.next(9.9), backoff.next(10.0), backoff.next(0)] == [1, 2, 1, 2]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=200))
def test_it_never_spins_and_never_waits_longer_than_its_longest(lives: list[float]) -> None:
    backoff = Backoff()
    assert all(0.1 <= backoff.next(lived) <= 30 for lived in lives)
