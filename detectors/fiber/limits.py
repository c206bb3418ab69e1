"""What a fibre may lose and reflect: the grades, and the attenuation that a budget is reckoned with."""

from dataclasses import dataclass

MULTIMODE_NANOMETERS = (1300.0,)
MULTIMODE_BELOW_NANOMETERS = 1000.0


@dataclass(frozen=True, kw_only=True)
class Limits:
    """connector_loss_db: of a mated pair. splice_loss_db: true loss, which is the mean of both directions.
    reflectance_db: single mode, reflectance_multimode_db: multimode; less is better. The attenuations are what a
    budget allows the fibre itself.
    """

    name: str
    connector_loss_db: float
    splice_loss_db: float = 0.3
    reflectance_db: float = -45.0
    reflectance_multimode_db: float = -35.0
    attenuation_db_per_kilometer: float = 0.5
    attenuation_multimode_db_per_kilometer: float = 3.5

    def reflectance_at(self, wavelength_nanometers: float | None) -> float:
        """Multimode fibre is shot at 850 and 1300 nm, single mode at 1310 nm and above."""
        return self.reflectance_multimode_db if is_multimode(wavelength_nanometers) else self.reflectance_db

    def attenuation_at(self, wavelength_nanometers: float | None) -> float:
        """In dB a kilometre."""
        multimode = is_multimode(wavelength_nanometers)
        return self.attenuation_multimode_db_per_kilometer if multimode else self.attenuation_db_per_kilometer


# tia: TIA-568.3 mated pair 0.75 dB and splice 0.3 dB (test set makers' pages; 0.75 also in a Fluke Networks article on
# 568.3-D). reference: a reference-grade plug against the link's own, 0.5 dB (same article, 568.3-E). strict: what
# field.md names as strict practice. b, c, d: maximum of IEC 61755 grades with return loss 45, 35 and 26 dB; these, the
# reflectances of all grades and the attenuation of single mode are from secondary texts, not from the standards
# themselves, so each is a setting. 3.5 dB/km at 850 nm: the maximum in makers' data sheets of OM4 cable.
GRADES = (
    Limits(name="tia", connector_loss_db=0.75),
    Limits(name="reference", connector_loss_db=0.5),
    Limits(name="strict", connector_loss_db=0.4, splice_loss_db=0.15),
    Limits(name="b", connector_loss_db=0.25, reflectance_multimode_db=-45.0),
    Limits(name="c", connector_loss_db=0.5, reflectance_db=-35.0),
    Limits(name="d", connector_loss_db=1.0, reflectance_db=-26.0, reflectance_multimode_db=-26.0),
)


def grade(name: str) -> Limits:
    """The grade of that name. Raises ValueError naming the grades there are."""
    for limits in GRADES:
        if limits.name == name.lower():
            return limits
    raise ValueError(f"no grade {name!r}; known: {', '.join(limits.name for limits in GRADES)}")


def is_multimode(wavelength_nanometers: float | None) -> bool:
    return wavelength_nanometers is not None and (
        wavelength_nanometers < MULTIMODE_BELOW_NANOMETERS or wavelength_nanometers in MULTIMODE_NANOMETERS
    )
