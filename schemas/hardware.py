"""What a management controller says of the box of a server, switch or CDU: temperatures, fans, supplies, health."""

import dataframely as dy

from schemas.columns import name, reading, sample_time, word


class HardwareSensor(dy.Schema):
    """One sensor, fan, supply, pump or filter of a box; only the columns of its own quantities are set."""

    time = sample_time("by the controller's clock")
    device = name("node, switch or CDU that the sensor is in")
    sensor = name("as the controller names it")
    temperature_celsius = reading("celsius", -55, 250, "air, board or component")
    fan_rpm = reading("revolutions per minute", 0, 60000, "speed of a fan")
    fan_percent = reading("percent", 0, 100, "speed of a fan, of its full speed")
    watts = reading("watts", 0, 200_000, "of a supply: output where it is told, else input; of a box: drawn")
    input_watts = reading("watts", 0, 200_000, "drawn by a supply")
    volts = reading("volts", -60, 2000, "of a rail, or at a supply's input")
    amps = reading("amperes", 0, 10000, "at a supply's input")
    health = word("what the controller thinks of it", "ok", "warning", "critical")
