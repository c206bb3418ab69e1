import pytest

from detectors.gpu.xid_catalog import FATAL_CODES, XID_BY_CODE, XIDS


def test_the_sheet_has_172_codes_each_once():
    assert len(XIDS) == len(XID_BY_CODE) == 172


def test_only_the_codes_on_which_the_classifiers_agree_are_fatal():
    assert FATAL_CODES == (48, 62, 64, 74, 79, 119, 120)
    assert {xid.code for xid in XIDS if xid.agreed == "benign"} == {13, 31, 43, 45}


@pytest.mark.parametrize(
    ("code", "cause", "action"),
    [
        (13, "gpu_fatal_error", "restart_app"),
        (54, "gpu_fatal_error", "field_diagnostics"),
        (79, "gpu_fallen_off_bus", "reboot_node"),
        (95, "gpu_memory", "reset_gpu"),
        (136, "gpu_nvlink", "reset_gpu"),
        (38, "gpu_fatal_error", "open_ticket"),
    ],
)
def test_advice_of_the_vendor_in_our_words(code, cause, action):
    assert (XID_BY_CODE[code].cause, XID_BY_CODE[code].action) == (cause, action)
