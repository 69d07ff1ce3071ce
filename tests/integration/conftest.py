"""Everything here that has a database runs on both."""

import pytest


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> dict[str, str]:
    if request.param == "sqlite":
        return {}
    return {"database_url": request.getfixturevalue("postgresql_url")}
