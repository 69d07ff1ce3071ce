import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Call all cases of a test but its first slow: `make check` runs one case of each, `make test` all."""
    started = set()
    for item in items:
        test = item.nodeid.partition("[")[0]
        if test in started and test.startswith("tests/unit/"):
            item.add_marker(pytest.mark.slow)
        started.add(test)
