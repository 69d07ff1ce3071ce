from tests.slow_clients import withstand_slow_clients


def test_slow_clients_without_token_keep_nobody_out(empty_dashboard):
    withstand_slow_clients(empty_dashboard, seconds=2)
