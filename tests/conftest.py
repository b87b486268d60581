"""Settings that all tests share."""

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("nightly", deadline=None, max_examples=2000, print_blob=True)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)
if PROFILE == "ci":
    # Hypothesis also draws from the constants of all modules that happen to be loaded, which
    # depends on how the files were spread over processes. Without them a run can be repeated.
    providers.is_local_module_file = lambda path: False
