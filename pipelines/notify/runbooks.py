"""What to do about each cause, in words: the pages of docs/runbooks are made of these, the playbook and the catalogue.

summary: what fails, in one line. first: the first thing a person does. steps: what follows, in order. verify: how one
sees that it is over.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Runbook:
    summary: str
    first: str
    steps: tuple[str, ...]
    verify: str


def _r(summary: str, first: str, *steps: str, verify: str) -> Runbook:
    return Runbook(summary, first, steps, verify)


BACK = "beats, clocks and counters are as its peers' through field diagnostics and probation"
CLEAN = "pre-FEC error rate and received power are back at their baseline for 126 minutes"

RUNBOOKS: dict[str, Runbook] = {
    "power_domain_lost": _r(
        "a PDU or its feed is gone, and every node on it",
        "find out at the board whether the breaker tripped or the feed is dead",
        "Do not close a tripped breaker before its load is known: 80 % of its rating is the limit for continuous load.",
        "Approve or reject the survivors' checkpoint; it goes ahead by itself at its deadline.",
        "Bring nodes back in groups, so that inrush does not trip it again.",
        verify="the meter reports, nodes beat again, and spares have gone back to the pool",
    ),
    "breaker_overloaded": _r(
        "a circuit carries more than it may continuously, and its breaker will open",
        "see what was added: a lost second feed, a new rack, a lifted power limit",
        "Keep the power cap until load has moved to another circuit.",
        "Do not reset a breaker that opened under overload before the load is off.",
        verify="current is below the circuit's continuous rating for an hour",
    ),
    "power_sag": _r(
        "the supply voltage dips below what power supplies tolerate for long",
        "look at the feed's voltage in the building's own recorder",
        "Keep the power cap until the feed is explained.", "Move work off the domain if sags repeat within the hour.",
        verify="no sample below 90 % of nominal for an hour",
    ),
    "coolant_pump_failure": _r(
        "a coolant pump stopped and its loop's flow fell; below half of it GPUs have tens of seconds",
        "compare the loop's flow with its normal: at half or more, what still runs holds temperatures",
        "Below half, approve the staged shutdown or object: unanswered it begins by itself before the hardware would "
        "stop, at the time that the page names. At half or more it never begins without people: approve it only if "
        "temperatures go on rising.",
        "Check drive, coupling and feed of the pump; exchange it.", "Bleed the loop before loading it again.",
        verify="flow and rise of the loop are at their normal for ten minutes under load",
    ),
    "coolant_leak": _r(
        "the loop loses coolant", "send somebody to look: a sensor alone may be wet from condensation, and is a ticket",
        "Two signs are a page. Approve checkpoint and staged shutdown, or object: who objects to the shutdown keeps "
        "the flow too. Unanswered they begin by themselves, and the loop is isolated when as much more has run out as "
        "before it was seen (1.5 % of the reservoir), two minutes after the page at the latest.",
        "If you see water over live power, do not wait: cut the power, then isolate the loop.",
        "Isolate the loop if it has not been done.", "Dry and inspect every node below the leak before power goes on.",
        "Nothing is powered on again by itself: a person returns each node.",
        verify="level and pressure hold for an hour after refilling",
    ),
    "coolant_flow_restricted": _r(
        "flow falls at a steady pump: strainer, valve or hose", "compare pressure over the strainer with its baseline",
        "Clean or exchange the strainer.", "Check valve positions against their set-points.",
        verify="flow at the same pump speed is back at its baseline",
    ),
    "valve_stuck": _r(
        "a branch valve does not follow its set-point", "compare commanded and reported position",
        "Move it by hand once; exchange the actuator if it sticks again.",
        verify="the branch's rise equals its peers' at the same load",
    ),
    "cold_plate_clogged": _r(
        "one GPU's thermal resistance grows: its cold plate clogs", "compare flow through the plate with its peers'",
        "Flush the plate at the next drain; exchange it if resistance stays up.",
        verify="(GPU temperature - inlet) / power is within 10 % of its peers",
    ),
    "coolant_air": _r(
        "air in the loop: flow and pressure flutter", "open the automatic vents and look at the fill level",
        "Bleed the loop at its highest point.", verify="flow's variance is back at its baseline",
    ),
    "coolant_chemistry": _r(
        "pH, conductivity or glycol share is out of band", "take a sample and have it measured",
        "Dose inhibitor or exchange coolant as the laboratory says.", "Look for corrosion products in the strainer.",
        verify="a second sample is in band",
    ),
    "coolant_heat_unbalanced": _r(
        "a loop's water carries more or less heat than its GPUs draw, and both its sides say so",
        "compare the CDU's own heat reading, the facility's meter and the electrical power",
        "Look for another consumer or source on the loop, and for a bypass that stands open.",
        verify="heat over electrical power is back within 10 % of what it was",
    ),
    "heat_exchanger_fouled": _r(
        "the heat exchanger's approach grows", "compare approach at equal load with its baseline",
        "Clean the facility side at the next window.", verify="approach is back within 1 K of its baseline",
    ),
    "switch_lost": _r(
        "a switch is gone with all its links", "see whether it has power and answers on its management port",
        "Power-cycle it once.", "Exchange it; keep the cable map at hand.",
        verify="all its ports are up and clean for 126 minutes",
    ),
    "node_lost": _r(
        "a node does not beat any more, and nothing above it explains that",
        "look at its console through the management controller",
        "Collect the kernel log before rebooting.",
        "If it was lost before this week, treat it as a lemon: diagnostics.",
        verify=BACK,
    ),
    "lemon_node": _r(
        "a node has failed again and again, whatever was repaired", "keep it out of the job and of the spare pool",
        "Read all its failures of the week together: same slot, same riser, same supply?",
        "Exchange what they have in common, then field diagnostics and a burn-in; a second time, RMA the node.",
        verify="a week in the job without a failure",
    ),
    "hardware_degraded": _r(
        "a fan, supply, drive or sensor of the box reports that it fails", "read the controller's own event log",
        "Exchange the part at the next drain; a second fan or supply makes it urgent.",
        verify="the controller reports the part as healthy",
    ),
    "gpu_fallen_off_bus": _r(
        "a GPU no longer answers on PCIe", "let the node be drained and rebooted",
        "If it is gone again within a week, reseat the board, then RMA.", verify=BACK,
    ),
    "gpu_fatal_error": _r(
        "a GPU reported an error that only a reset clears", "let the node be drained, then the GPU be reset",
        "Read the XID's own advice in the evidence.", "After two resets in seven days run field diagnostics, then RMA.",
        verify=BACK,
    ),
    "gpu_memory": _r(
        "GPU memory has errors that row remapping no longer covers", "drain the node",
        "Check remap failure and pending flags; a pending remap needs a reset.",
        "Remap failure, or more than 4 uncorrectable SRAM errors in all: RMA.", verify=BACK,
    ),
    "gpu_nvlink": _r(
        "NVLink of a GPU has errors", "drain the node and reset its GPUs",
        "If one link stays bad after the reset, reseat the board or RMA.", verify=BACK,
    ),
    "gpu_pcie": _r(
        "the PCIe link runs narrower or slower, or replays", "compare width, generation and replays with its peers",
        "Reseat at the next drain.", verify="width and generation are full and replays do not grow",
    ),
    "gpu_thermal_throttle": _r(
        "a GPU slows itself down for heat", "compare inlet temperature and flow with its neighbours'",
        "More flow, then less power, then out: each is tried in turn.", "Check thermal interface and cold plate.",
        verify="no thermal bit is set for 30 s under full load",
    ),
    "gpu_power_brake": _r(
        "something outside asserts the GPU's power brake", "look at the node's power supplies and their feed",
        "All GPUs of several nodes at once point at the feed, one node at its supplies.",
        verify="the brake bit is clear and clocks are at their peers'",
    ),
    "gpu_straggler": _r(
        "one GPU computes slower than its peers", "compare clocks, power and PCIe with its peers",
        "Run diagnostics at the next drain.", verify="its own share of the step is within its peers' spread",
    ),
    "gpu_hang": _r(
        "a rank stands still while others wait", "get the rank's stack before it is restarted",
        "Restart the application's rank; look for the XID that came before.", verify="steps advance again",
    ),
    "fiber_loss": _r(
        "a cable loses more light than it did", "clean and inspect both ends",
        "Seat it again and shoot it; compare with the baseline.", "Replace it if the loss stays.",
        verify="the new trace agrees with the baseline within 0.1 dB",
    ),
    "fiber_reflectance": _r(
        "a connector reflects light", "inspect both end faces", "Clean; exchange a scratched connector.",
        verify="reflectance is below its grade's limit",
    ),
    "fiber_length": _r(
        "a cable is not as long as it should be", "read the label at both ends: the wrong cable is plugged",
        "Correct the record or the cable.", verify="length agrees within the measurement's uncertainty",
    ),
    "connector_contaminated": _r(
        "one end of a link receives less light on some lanes: dirt", "clean and inspect that end",
        "Clean the module's port too.", verify=CLEAN,
    ),
    "optic_degrading": _r(
        "a transceiver's laser ages", "order a transceiver and plan the exchange",
        "Exchange it before the bias current reaches its alarm limit.", verify=CLEAN,
    ),
    "link_degraded": _r(
        "a link's error rate is beyond its limit", "see at which end it receives errors",
        "Clean, then reseat, then exchange the transceiver, then the cable.", verify=CLEAN,
    ),
    "link_congested": _r(
        "a link waits for credit, and nothing is damaged", "see which jobs share the path",
        "Look at placement and adaptive routing.", verify="waiting falls back to its peers'",
    ),
    "link_flap": _r(
        "a link goes down and comes back again and again", "keep it isolated",
        "Clean, reseat, then replace: transceiver first, cable next.", verify=CLEAN,
    ),
    "link_down": _r(
        "a link is down", "see whether both ends have light", "Reset the port once.", "Reseat, then replace.",
        verify=CLEAN,
    ),
    "job_hang": _r(
        "no rank of the job makes progress", "find the first rank that stopped: the others wait for it",
        "Get stacks, then restart from the newest checkpoint.", verify="steps advance on all ranks",
    ),
    "checkpoint_stale": _r(
        "the newest checkpoint is older than its interval allows", "see whether the checkpoint store takes writes",
        "A failure now costs all steps since: consider pausing changes until one is written.",
        verify="a checkpoint completes on every shard",
    ),
    "telemetry_stale": _r(
        "a source is silent: what it watches is unknown, not healthy", "see whether the exporter runs",
        "Restart it; check the network between it and the broker.", verify="rows come at their usual interval",
    ),
    "telemetry_frozen": _r(
        "a source repeats the same values", "restart the exporter: its library has lost the driver",
        "Read one value by hand on the node.", verify="values move as the peers' do",
    ),
    "telemetry_implausible": _r(
        "a source sends values that cannot be", "compare with the same reading by hand",
        "Check unit and scale after any update of the exporter.", verify="no row goes to quarantine for an hour",
    ),
    "counter_saturated": _r(
        "a counter stands at its maximum and counts no more", "clear it on the device",
        "Read it with its 64-bit form if the device has one.", verify="it counts from a small number again",
    ),
    "counter_stuck": _r(
        "one counter of a source stands still while the source's other readings say that it must count",
        "read the counter by hand on the device",
        "Restart the exporter; if it still stands, the driver or the device's firmware holds it.",
        "Rates from this counter read zero: do not conclude from them that nothing happens.",
        verify="it grows with every sample again",
    ),
    "source_restarted": _r(
        "the counters of a source began again near zero: its exporter or device restarted, or they were cleared",
        "see in the log of the host or device what restarted, and why",
        "What was counted just before is lost; rates begin anew. More than twice in half an hour is a loop.",
        verify="its counters grow for half an hour without falling",
    ),
    "clock_skew": _r(
        "a source's clock is off", "look at the node's time service",
        "Until then its rows are late or early, and order of events across nodes is in doubt.",
        verify="its rows' times are within 2 s of their arrival",
    ),
}  # fmt: skip
