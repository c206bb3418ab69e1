"""How property tests draw their examples."""

import os

from hypothesis import settings

# The same examples on every run, so that a red run speaks of the change it ran for; HYPOTHESIS_PROFILE=explore looks
# for new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
