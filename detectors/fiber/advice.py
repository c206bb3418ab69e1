"""What a change of an event says of its cause, and whether to clean, reseat or replace."""

import polars as pl

# Glass to air reflects ((n - 1) / (n + 1))^2 = -14.4 dB at n = 1.468 (Fresnel), a contaminated end face -20 dB or less
# (the example in Fluke Networks' manuals), so that a reflection above -20 dB is a gap.
AIR_GAP_REFLECTANCE_DB = -20.0

ADVICE = {
    "dirty_connector": "clean",
    "open_connector": "reseat",
    "misaligned_connector": "reseat",
    "bend": "replace",
    "crack": "replace",
    "break": "replace",
    "attenuation": "replace",
}
ACTION = {"clean": "clean_connector", "reseat": "reseat", "replace": "replace_cable"}
MEANING = {
    "dirty_connector": "reflects more than it did: inspect and clean both end faces",
    "open_connector": "reflects like glass against air: clean, then seat the plug until it clicks",
    "misaligned_connector": "a connector loses more and reflects as before: take the strain off and seat it anew",
    "bend": "loses without reflecting, where no connector is: bent, crushed or a failing splice; relieve it or replace",
    "crack": "reflects where no connector is: cracked fibre",
    "break": "the fibre ends before its end",
    "attenuation": "the whole loses more and no event explains it",
}


def signature() -> pl.Expr:
    """The kind of damage at an event, by its columns known (it was there before), reflective (it was, or is),
    was_reflective, reflects (its reflection is bad) and reflectance_db.

    What grows in a connector tells them apart: contamination scatters light back, a gap reflects like a mirror of
    glass, and strain or a bend close by loses without either. A bend in a connector's dead zone looks misaligned.
    """
    open_gap = pl.col("reflects") & (pl.col("reflectance_db") > AIR_GAP_REFLECTANCE_DB)
    connector = pl.col("known").fill_null(value=False) & pl.col("was_reflective").fill_null(value=False)
    return (
        pl.when(connector & open_gap.fill_null(value=False)).then(pl.lit("open_connector"))
        .when(connector & pl.col("reflects")).then(pl.lit("dirty_connector"))
        .when(connector).then(pl.lit("misaligned_connector"))
        .when("reflective").then(pl.lit("crack"))
        .otherwise(pl.lit("bend"))
    )  # fmt: skip


def advised(signature_name: pl.Expr) -> pl.Expr:
    return signature_name.replace_strict(ADVICE, default=None, return_dtype=pl.String)
