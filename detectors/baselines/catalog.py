"""The yardsticks of `hotspare score`, by the name under which a scorecard shows them."""

from detectors.baselines.forest import Forest
from detectors.baselines.peer_distance import PeerDistance
from detectors.baselines.robust_z import RobustZ
from detectors.baselines.silent import Silent
from detectors.baselines.static_rules import StaticRules
from detectors.contract import Detector

BASELINES: tuple[tuple[str, Detector], ...] = (
    ("static rules", StaticRules()),
    ("robust z", RobustZ()),
    ("isolation forest", Forest()),
    ("Minder-like", PeerDistance()),
    ("null", Silent()),
)
