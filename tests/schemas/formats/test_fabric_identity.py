import pytest

from schemas.formats.fabric_identity import device_of, guid, interface_of, place_of
from schemas.formats.ibnetdiscover_names import Device, names_of


@pytest.mark.parametrize(
    "text", ["2c903006e29b0", "0x2c903006e29b0", "0x0002c903006e29b0", "0x0002C903006E29B0", " 0002c903006e29b0 "]
)
def test_a_guid_is_one_however_it_is_written(text: str) -> None:
    assert guid(text) == "0x0002c903006e29b0"


@pytest.mark.parametrize("text", ["", "0x", "n00012", "0x00002c903006e29b0", "0xzz"])
def test_what_is_no_guid_is_none(text: str) -> None:
    assert guid(text) is None


@pytest.mark.parametrize(
    ("description", "switch", "device"),
    [
        ("o0001 HCA-1", False, "o0001/hca0"),
        ("server mlx5_3", False, "server/hca3"),
        ("MF0;ys23ib4:SX6036/U1", True, "ys23ib4"),
        ("MF0;dirA:MCS8500/L16/U2", True, "dirA.L16.U2"),
    ],
)
def test_a_described_device_has_the_name_that_the_topology_gives_it(description, switch, device) -> None:
    assert device_of(description, "0x2c903006e29b0", switch=switch) == device
    topology = names_of({"": Device("S" if switch else "H", "2c903006e29b0", description)})
    assert topology == {"": device}


def test_an_hca_without_a_number_is_its_guid_since_its_siblings_are_not_seen() -> None:
    assert device_of("sat11 ibp11s0f0", "2c903006e29b0", switch=False) == "0x0002c903006e29b0"
    assert device_of("", "2c903006e29b0", switch=True) == "0x0002c903006e29b0"


@pytest.mark.parametrize(
    ("node", "place"),
    [
        ("perfquery_0x506b4b03005c2740", ("0x506b4b03005c2740", None)),
        ("n00012_mlx5_3", ("n00012/hca3", None)),
        ("n00012/hca3:1", ("n00012/hca3", 1)),
        ("leaf-017_port33", ("leaf-017", 33)),
        ("leaf-017:33", ("leaf-017", 33)),
        ("leaf-017_Ethernet48", ("leaf-017", 48)),
        ("n00012_ib6", ("n00012/hca6", None)),
        ("n00012", ("n00012", None)),
        ("", ("unknown", None)),
    ],
)
def test_the_name_of_a_file_or_key_can_say_device_and_port(node: str, place: tuple[str, int | None]) -> None:
    assert place_of(node) == place


@pytest.mark.parametrize(
    ("interface", "place"),
    [
        ("ib6", ("n1/hca6", 1)),
        ("mlx5_3", ("n1/hca3", 1)),
        ("enp134s0f0", ("n1/enp134s0f0", 1)),
        ("eth0", ("n1/eth0", 1)),
        ("Ethernet48", ("n1", 48)),
        ("swp13", ("n1", 13)),
        ("ethernet-1/11", ("n1", 11)),
        ("et-0/0/5", ("n1", 5)),
        ("HundredGigE2/0/15", ("n1-2.0", 15)),
        ("Ethernet9999", None),
        ("../x", None),
    ],
)
def test_an_interface_is_a_port_of_a_device(interface: str, place: tuple[str, int] | None) -> None:
    assert interface_of("n1", interface) == place
