"""Takes away every threshold and every memory of the detectors, one by one, and names the test that notices.

python -m tests.ablation [detector ...]: a line for each ablation with the first test that fails, or SURVIVED; ends with
1 when one survived, or when a detector's tests fail as it is. The tests are those of the detector's own files and then
its cases of the conformance suite. Source files are not touched: each ablation is made in a forked process.
"""

import argparse
import os
import sys

os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import replay.score  # imported once here, so that no forked process has to
import replay.simulate  # noqa: F401  # same
from detectors.catalog import CATALOG
from tests.ablation.ablations import ablations_of
from tests.ablation.trial import CONFORMANCE, first_failure, own_tests


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.ablation")
    parser.add_argument("detectors", nargs="*", metavar="detector", help="names of the catalogue; all if none is given")
    asked = parser.parse_args()
    known = {detector.name: detector for detector in CATALOG}
    if unknown := sorted(set(asked.detectors) - set(known)):
        parser.error(f"no such detector: {', '.join(unknown)}; there are {', '.join(known)}")
    names = asked.detectors or list(known)
    made = survived = failing = 0
    for name in names:
        for what, failed in notices(known[name]):
            made += what != AS_IT_IS
            survived += failed is None
            failing += what == AS_IT_IS
            sys.stdout.write(f"{name:30} {what:50} {failed or 'SURVIVED'}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{made} ablations of {len(names)} detectors: {survived} survived\n")
    return 1 if survived or failing else 0


AS_IT_IS = "as it is"


def notices(detector):
    """What was taken away, and the name of the first test that fails. Where one fails as it is, that is all."""
    own, conformance = own_tests(detector), [CONFORMANCE]
    if failed := first_failure(detector, own, None):
        yield AS_IT_IS, failed
        return
    conforms = None
    for ablation in ablations_of(detector):
        failed = first_failure(detector, own, ablation)
        if failed is None:
            conforms = conforms or first_failure(detector, conformance, None) or AS_IT_IS
            if conforms != AS_IT_IS:
                yield AS_IT_IS, conforms
                return
            failed = first_failure(detector, conformance, ablation)
        yield ablation.what, failed


if __name__ == "__main__":
    sys.exit(main())
