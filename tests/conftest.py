"""What all tests share."""

import os

# Most tests are about fused kernels, which a small graph gets only after some runs. The default is
# tested in test_first_tier.py, tests/autograd, the documentation and the examples.
os.environ.setdefault("NUMBA_GRAD_ENGINE", "fused")
