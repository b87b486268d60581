"""Lengths of rollups nest."""

import pytest

from muntin.errors import BadArgument
from muntin.windows.ladder import SECOND, checked_ladder, ladder


def test_ladders():
    assert ladder(10 * SECOND)[:3] == (60 * SECOND, 600 * SECOND, 3600 * SECOND)
    assert checked_ladder(10, (60, 600)) == (60, 600)
    with pytest.raises(BadArgument, match=r"^rollups: .* not a multiple"):
        checked_ladder(10, (60, 90))
