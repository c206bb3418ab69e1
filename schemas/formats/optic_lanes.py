"""What optical sources share: darkness. No light is -40 dBm, -inf or 0 mW, which are no powers: the lane has null power
and light = false; and a bit error rate of 0 without light says nothing.
"""

from schemas.formats.fabric_readings import DARK_DBM, Rows, number_of

_MINUS_INFINITY = ("-inf", "-infinity")


def is_dark(raw: object) -> bool:
    """Whether a power in dBm says that there is no light."""
    value = number_of(raw)
    if value is not None:
        return value <= DARK_DBM
    return str(raw).strip().lower() in _MINUS_INFINITY


def receive_power(
    rows: Rows, row: dict[str, object], raw: object, *, lost: bool | None = None, place: int | None = None
) -> None:
    """Light received, in dBm. lost: what the module's own loss-of-signal flag says, where it has one."""
    rows.shown.update(("light", "receive_power_dbm"))
    if lost or is_dark(raw):
        rows.word(row, "light", value=False)
        return
    rows.number(row, "receive_power_dbm", raw, place=place)
    lit = "receive_power_dbm" in row or lost is False
    rows.word(row, "light", value=True if lit else None)


def transmit_power(rows: Rows, row: dict[str, object], raw: object, *, place: int | None = None) -> None:
    """Light sent, in dBm; null where the laser is off."""
    rows.shown.add("transmit_power_dbm")
    if not is_dark(raw):
        rows.number(row, "transmit_power_dbm", raw, place=place)
