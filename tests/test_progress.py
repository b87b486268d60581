"""What a run says that it has done, however long it lasts."""

import numpy as np

from muntin.progress import Progress


def test_a_live_run_remembers_the_panes_that_are_open_and_no_others():
    progress = Progress()
    for second in range(100_000):  # a pane a second, each reached by two batches
        progress.reached([np.array([second, second + 1])], second - 3, second - 2)
    assert progress.panes == 100_001
    assert len(progress.open) == 4


def test_a_pane_counts_once_until_it_is_sealed():
    progress = Progress()
    progress.reached([np.array([10, 20])], None, None)
    progress.reached([np.array([20]), np.array([20, 30])], None, 20)
    progress.reached([np.array([10, 30])], 20, 30)  # 10 is late
    assert (progress.panes, progress.open.tolist()) == (3, [30])
