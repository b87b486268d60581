"""Settings that all tests share."""

import os

from httpx import _config
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
settings.register_profile(
    "nightly",
    deadline=None,
    max_examples=2000,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "ci")
settings.load_profile(PROFILE)
if PROFILE == "ci":
    # Hypothesis also draws from the constants of all modules that happen to be loaded, which
    # depends on how the files were spread over processes. Without them a run can be repeated.
    providers.is_local_module_file = lambda path: False

# An answer may wait for kernels that are compiled for the first time, on a machine with other work:
# 5 seconds, which is what httpx gives, is no sign of a fault.
for part in ("connect", "read", "write", "pool"):
    setattr(_config.DEFAULT_TIMEOUT_CONFIG, part, 180.0)
