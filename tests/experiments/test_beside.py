"""Records of rows that are no row of `compare`."""

import numpy as np
import pytest
from harness.beside import beside
from harness.results_file import RESULTS, read_results


def test_the_record_of_another_row_has_its_own_value_and_interval():
    base = next(one for one in read_results(RESULTS) if one.experiment == "cause")
    right = np.arange(base.queries)[:, None] % 4 == 0
    record = beside(base, "other", right.astype(float), base.cost)
    assert (record.row, record.task, record.texts) == ("other", base.task, base.texts)
    assert record.value == pytest.approx(25)
    assert record.low < 25 < record.high
