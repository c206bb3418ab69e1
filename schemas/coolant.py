"""Liquid cooling: the loop of one coolant distribution unit (CDU), its pumps, and the cold plate of each GPU."""

import dataframely as dy

from schemas.columns import name, reading, sample_time, whole, word


class CoolantLoop(dy.Schema):
    """The secondary (technology) loop of one CDU, and the facility's water on the other side of its heat exchanger."""

    time = sample_time()
    cdu = name("coolant distribution unit")
    supply_celsius = reading("celsius", -20, 120, "to the racks")
    return_celsius = reading("celsius", -20, 120, "from the racks")
    facility_supply_celsius = reading("celsius", -20, 120, "facility water into the heat exchanger")
    facility_return_celsius = reading("celsius", -20, 120, "facility water out of the heat exchanger")
    facility_flow_liters_per_minute = reading(
        "liters per minute", 0, 20000, "facility water through the heat exchanger"
    )
    facility_supply_pressure_kpa = reading("kilopascals", -100, 5000, "gauge pressure of facility water coming in")
    facility_return_pressure_kpa = reading("kilopascals", -100, 5000, "gauge pressure of facility water going out")
    flow_liters_per_minute = reading("liters per minute", 0, 20000, "flow of the whole loop")
    supply_pressure_kpa = reading("kilopascals", -100, 5000, "gauge pressure after the pumps")
    return_pressure_kpa = reading("kilopascals", -100, 5000, "gauge pressure before the pumps")
    heat_removed_kilowatts = reading("kilowatts", 0, 20000, "heat out of the loop, as the CDU itself works it out")
    level_percent = reading("percent", 0, 100, "reservoir level")
    ph = reading("pH", 0, 14, "acidity")
    conductivity_us_per_cm = reading("microsiemens per centimetre", 0, 1e6, "conductivity")
    glycol_percent = reading("percent", 0, 100, "glycol by volume")
    leak_state = word("leak detection", "ok", "warning", "critical", "fault")


class CoolantPump(dy.Schema):
    """One pump of a CDU."""

    time = sample_time()
    cdu = name("coolant distribution unit")
    pump = name("pump in the CDU")
    speed_rpm = reading("revolutions per minute", 0, 20000, "shaft speed")
    speed_percent = reading("percent", 0, 100, "shaft speed as a share of its highest")
    power_watts = reading("watts", 0, 100000, "electrical power")


class ColdPlate(dy.Schema):
    """The branch of one GPU's cold plate."""

    time = sample_time()
    node = name("host")
    gpu = whole("slot", 0, 63, "slot in the node", nullable=False)
    inlet_celsius = reading("celsius", -20, 150, "coolant into the plate")
    outlet_celsius = reading("celsius", -20, 150, "coolant out of the plate")
    flow_liters_per_minute = reading("liters per minute", 0, 100, "flow through the plate")
    valve_percent = reading("percent", 0, 100, "valve opening; 100 is open")
