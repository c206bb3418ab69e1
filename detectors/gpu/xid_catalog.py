"""NVIDIA's catalogue of driver errors (XID), as data: what each code is, what NVIDIA advises, and whom one may believe.

xid_catalog.csv has one row a code. `six_classifiers_agree` is "fault" or "benign" where NVIDIA's sheet, gpud, gcm,
imbue's health checks, Azure's node health checks and the Kubernetes device plugin all say so: 11 of the 78 codes of an
H100. The other codes are observed: acting on one classifier's word took 77 healthy nodes out after one job crash
(NVSentinel pull request 1629).
"""

from collections.abc import Mapping
from csv import DictReader
from dataclasses import dataclass
from importlib.resources import files

from schemas.action import ActionKind

RECOVERY_ACTION_CHANGED = 154
FALLEN_OFF_BUS = 79

# NVIDIA's immediate actions in our words. "Bare metal" and "virtual machine" are the host here. What is not named asks
# for a person.
ACTIONS: Mapping[str, ActionKind] = {
    "RESTART_APP": "restart_app",
    "RESET_GPU": "reset_gpu",
    "WORKFLOW_XID_48": "reset_gpu",
    "WORKFLOW_NVLINK_ERR": "reset_gpu",
    "WORKFLOW_NVLINK5_ERR": "reset_gpu",
    "RESTART_BM": "reboot_node",
    "RESTART_VM": "reboot_node",
    "CHECK_MECHANICALS": "field_diagnostics",
}
# Which part of the GPU a code speaks of; the sheet has no column for it. Others are gpu_fatal_error.
CAUSES: Mapping[int, str] = {
    **dict.fromkeys((48, 63, 64, 92, 94, 95, 140, 171, 172), "gpu_memory"),
    **dict.fromkeys((74, 136, 144, 145, 146, 147, 148, 149, 150, 155), "gpu_nvlink"),
    **dict.fromkeys((80, 167), "gpu_pcie"),
    FALLEN_OFF_BUS: "gpu_fallen_off_bus",
}


@dataclass(frozen=True, kw_only=True)
class Xid:
    """code, mnemonic and advice as in the sheet; empty where it has none. agreed: fault, benign or empty."""

    code: int
    mnemonic: str
    immediate_action: str
    investigatory_action: str
    agreed: str

    @property
    def cause(self) -> str:
        return CAUSES.get(self.code, "gpu_fatal_error")

    @property
    def action(self) -> ActionKind:
        return ACTIONS.get(self.immediate_action, "open_ticket")


def _read() -> tuple[Xid, ...]:
    with files("detectors.gpu").joinpath("xid_catalog.csv").open(encoding="utf-8") as sheet:
        return tuple(
            Xid(
                code=int(row["code"]),
                mnemonic=row["mnemonic"],
                immediate_action=row["immediate_action"],
                investigatory_action=row["investigatory_action"],
                agreed=row["six_classifiers_agree"],
            )
            for row in DictReader(sheet)
        )


XIDS: tuple[Xid, ...] = _read()
XID_BY_CODE: Mapping[int, Xid] = {xid.code: xid for xid in XIDS}
FATAL_CODES: tuple[int, ...] = tuple(xid.code for xid in XIDS if xid.agreed == "fault")
