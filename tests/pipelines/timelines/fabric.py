"""Timelines of links and fibres. Ports are read every 10 s and optics every 30 s where the scenario says so; "two
samples in a row" are then told within 20 and 60 s. A fibre's fault is in the shot that shows it.
"""

from tests.pipelines.timelines.derived import grown, light_fades
from tests.pipelines.timelines.form import At, Between, Do, Timeline, Told, ticket

# The light is held for the first 30 % of 300 s, and has lost 6 dB at the end (replay.faults_fabric).
FADED = light_fades(0.5, 5, lambda second: -6 * grown(second, 180 + 90, 210), every=30)

FABRIC: dict[str, Timeline] = {
    # No bit is wrong: waiting for credit is a note, and nobody is paged.
    "congested_link": (),
    # 4.5 dB less light in two samples in a row, from the one of 240 s on.
    "dirty_connector": (
        Told(Between(240 + 30, 241 + 30), "connector_contaminated", ("c000081",), 0,
             (Do("clean_connector", "c000081"),)),
    ),
    # A sequential test of some 1e8 codewords a sample, of which 1e-7 begin a tail: a few samples decide.
    "fec_tail": (
        Told(Between(240, 250 + 3 * 10), "link_degraded", ("c000083",), 0, ticket("c000083")),
    ),
    # Three and a half decades in two samples in a row.
    "link_errors": (
        Told(Between(240 + 10, 250 + 10), "link_degraded", ("c000075",), 0, ticket("c000075")),
    ),
    # Down for 5 s every 40 s: the second outage of 5 minutes, at 220 s, is a flap; the sample of that second sees it,
    # and it waits 3 s for a cause above it.
    "link_flap": (
        Told(Between(220 + 3, 221 + 3), "link_flap", ("c000090",), 0,
             (Do("isolate_port", "spine-000:27", by=5), *ticket("c000090"))),
    ),
    # 22 K in 60 s, ten times the errors for each 8 K: a hundred times at 284 s, so in the sample of 290 s or, where a
    # hundred times are less than 1e-7, of 300 s. The module speaks at 300 s, and the next sample is the second.
    "module_overheated": (
        Told(Between(300 + 10, 301 + 10), "link_degraded", ("c000066",), 0, ticket("c000066")),
    ),
    # The bias rises by 35 % in 300 s: 20 % in the sample of 360 s. Before it the light is a trend, and a second sample
    # says so. Errors come last.
    "optic_decay": (
        Told(Between(FADED + 30, FADED + 31), "optic_degrading", ("c000070",), 0, ticket("c000070")),
    ),
    # Half of the rate in two samples in a row, while every step waits for it.
    "slow_hop": (
        Told(Between(240 + 10, 250 + 10), "link_degraded", ("c000070",), 0, ticket("c000070")),
    ),
    # Its own words do not count against those of its neighbours, all of whom are read in the second that begins then.
    "switch_lost": (
        Told(Between(180, 181), "switch_lost", ("leaf-003",), 0, ticket("leaf-003")),
    ),
}  # fmt: skip

# An OTDR's shot is a row at the instant it was taken: 240 s, and 10 s where two wavelengths are shot in turn.
BENT = (Do("clean_connector", "c000100"), Do("reseat", "c000100"))
FIBER: dict[str, Timeline] = {
    "fiber_bend": (Told(At(240), "fiber_loss", ("c000100",), 0, BENT),),
    "fiber_damage": (
        Told(At(240), "fiber_loss", ("c000100",), 0, BENT),
        Told(At(240), "fiber_loss", ("c000120",), 0, (Do("clean_connector", "c000120"), Do("reseat", "c000120"))),
        Told(At(240), "fiber_reflectance", ("c000110",), 0, (Do("clean_connector", "c000110"),)),
    ),
    "fiber_macrobend": (Told(At(10), "fiber_loss", ("c000100",), 0, BENT),),
}  # fmt: skip
