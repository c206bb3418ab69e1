"""OTDR measurements of fibre cables: the trace, and the events that the instrument found in it."""

import dataframely as dy

from schemas.columns import flag, name, reading, sample_time, text, whole


class OtdrTrace(dy.Schema):
    """One shot into one fibre. Distances are one-way, from the instrument's user offset."""

    time = sample_time("when the shot was taken, by the instrument's clock")
    cable = name("cable")
    fiber = name("fibre in the cable")
    direction = text("AB or BA")
    wavelength_nanometers = reading("nanometers", 400, 2000, "nominal wavelength")
    pulse_nanoseconds = reading("nanoseconds", 0, 1e6, "pulse width: sets dead zone and reach")
    group_index = reading("ratio", 1, 2, "speed of light in vacuum over speed in the fibre")
    length_meters = reading("meters", 0, 5e5, "distance to the end of the fibre")
    total_loss_db = reading("dB", -10, 100, "loss over the span")
    return_loss_db = reading("dB", 0, 100, "optical return loss of the span; higher is better")
    baseline = flag("whether later shots are compared with this one")
    first_sample_meters = reading("meters", -5e5, 5e5, "distance of the first sample")
    sample_spacing_meters = reading("meters", 0, 1000, "distance between samples")
    samples_db = dy.List(
        dy.Float64(nullable=False),
        nullable=True,
        metadata={"unit": "dB"},
        description="backscatter level of each sample, relative to the first; falls with distance",
    )


class OtdrEvent(dy.Schema):
    """One event of a trace. Gainers (negative loss) stay negative: they are an artefact of one direction."""

    time = sample_time("time of the trace it belongs to")
    cable = name("cable")
    fiber = name("fibre in the cable")
    direction = text("AB or BA")
    number = whole("number", 0, 65535, "number in the trace, from 1", nullable=False)
    distance_meters = reading("meters", -5e5, 5e5, "distance; negative before the offset")
    loss_db = reading("dB", -40, 100, "loss of the event")
    reflectance_db = reading("dB", -120, 10, "reflectance; null when not reflective")
    code = text("SR-4731 event code, e.g. 1F9999LS")
