"""What the integration tests share.

No assertions live here.
"""

import warnings

import pytest


@pytest.fixture(scope="session")
def great_expectations() -> None:
    """Import it once, deaf to what its own imports warn of: in tests a warning is an error, in the middle of
    whoever imports it first.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations  # noqa: F401
