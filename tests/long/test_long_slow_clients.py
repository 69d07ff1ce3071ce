"""Crowds of slow clients, for longer than any timeout; the short form is in tests/faults."""

from tests.slow_clients import withstand_slow_clients


def test_slow_clients_keep_nobody_out_for_longer_than_any_timeout(empty_dashboard, figures):
    figures.extend(withstand_slow_clients(empty_dashboard, seconds=30))
