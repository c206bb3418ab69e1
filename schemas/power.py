"""Power domains. A dead meter sends nothing."""

import dataframely as dy

from schemas.columns import name, reading, sample_time, word


class Power(dy.Schema):
    """One power distribution unit (PDU)."""

    time = sample_time("by the meter's clock")
    pdu = name("power distribution unit")
    volts = reading("volts", 0, 2000, "line to line, rms")
    volts_minimum = reading("volts", 0, 2000, "lowest half-cycle since the last sample")
    amps = reading("amperes", 0, 10000, "current per phase")
    rated_amps = reading("amperes", 0, 10000, "what the circuit may carry continuously, after derating")
    watts = reading("watts", 0, 1e7, "active power")
    breaker = word("breaker state", "closed", "open", "tripped")
