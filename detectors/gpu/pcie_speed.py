"""How fast a PCIe link is, from its generation and lanes."""

import polars as pl

GIGATRANSFERS_PER_SECOND = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0, 7: 128.0, 8: 256.0}
FULL_GIGATRANSFERS_PER_SECOND = 32.0 * 16  # all lanes of a Gen5 x16 link

SPEED = (
    pl.col("pcie_generation").replace_strict(GIGATRANSFERS_PER_SECOND, default=None, return_dtype=pl.Float64())
    * pl.col("pcie_width")
).alias("gigatransfers_per_second")  # fmt: skip
