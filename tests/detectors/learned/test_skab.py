"""Faults of a real water loop (Skoltech Anomaly Benchmark, valve1), fitted on the first 400 rows of each file only.

The labels are the benchmark's; a row counts if it comes after the fitted ones. Nothing is adjusted.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from detectors.learned.normal import Learning, fit

FILES = sorted((Path(__file__).resolve().parents[4] / "shared" / "corpus" / "datasets").glob("skab_valve1_*.csv"))
FITTED_ROWS = 400
LABELS = ("anomaly", "changepoint")


@pytest.mark.skipif(not FILES, reason="the corpus is not here")
def test_real_valve_faults_are_found_with_f1_of_080_at_14_percent_false_alarms() -> None:
    alarms, truth = [], []
    for path in FILES:
        table = pl.read_csv(path, separator=";")
        names = tuple(name for name in table.columns if name not in {"datetime", *LABELS})
        values = table.select(names).to_numpy()
        model = fit([values[:FITTED_ROWS]], names, Learning())
        alarms.append(model.scores(values)[FITTED_ROWS:] >= 1)
        truth.append(table["anomaly"].to_numpy()[FITTED_ROWS:] == 1)
    alarm, wrong = np.concatenate(alarms), np.concatenate(truth)
    hits = (alarm & wrong).sum()
    assert 2 * hits / (alarm.sum() + wrong.sum()) >= 0.80
    assert (alarm & ~wrong).sum() / (~wrong).sum() <= 0.14
