"""Slow clients for longer than any timeout. tests/faults has the short form."""

from tests.slow_clients import withstand_slow_clients


def test_slow_clients_keep_nobody_out(empty_dashboard, figures):
    figures.extend(withstand_slow_clients(empty_dashboard, seconds=30))
