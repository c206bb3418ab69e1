"""Every detector, read top to bottom. A new one is one file and one line here; the conformance suite picks it up."""

from detectors.contract import Detector

CATALOG: tuple[Detector, ...] = ()
