"""The bundles that tests/pipelines/bundles/test_kept.py judges again: `python -m tests.data.make_bundles [FOLDER]`.

Write them anew when decisions change on purpose, and say so in docs/decisions.md: whoever keeps bundles of their own
will see the same change.
"""

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from pipelines.bundles.bundle import encode
from pipelines.bundles.export import export
from pipelines.bundles.source import bundle_source
from pipelines.bundles.verify import divergence
from pipelines.operations_store import OperationsStore
from pipelines.pacing import window_seconds
from pipelines.rejudge import rejudge
from pipelines.settings import Settings, stored_in
from pipelines.sources.choose import source_for
from pipelines.telemetry_store import TelemetryStore
from pipelines.workplace import Workplace

KEPT = Path(__file__).parent / "bundles"
SCENARIOS = ("link_flap", "history/xid_45_storm", "history/hosts_lost_together")
BEFORE_SECONDS, AFTER_SECONDS = 90.0, 30.0


def main(folder: Path) -> None:
    for name in SCENARIOS:
        with tempfile.TemporaryDirectory() as scratch:
            settings = stored_in(Settings(), Path(scratch))
            around = {"before_seconds": BEFORE_SECONDS, "after_seconds": AFTER_SECONDS}
            settings = settings.model_copy(update={"bundles": settings.bundles.model_copy(update=around)})
            operations = OperationsStore.open(settings.store.operations)
            Workplace(settings=settings).stream(source_for(name, settings), operations).run()
            incident = operations.incidents()[0]
            telemetry = TelemetryStore(settings.store.telemetry)
            bundle = export(incident, settings, telemetry, operations, datetime.now(UTC))
            found = divergence(bundle, rejudge(bundle_source(bundle, seconds=window_seconds(None)), settings))
            if found is not None:
                raise SystemExit(f"{name}: not judged the same again: {found}")
            data = encode(bundle)
        (folder / f"{Path(name).name}.hotspare").write_bytes(data)
        sys.stdout.write(f"{name}: {incident.cause} of {', '.join(incident.roots)}, {len(data):,} bytes\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else KEPT)
