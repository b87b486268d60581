"""Lengths of rollups nest."""

import pytest

from muntin.errors import BadArgument
from muntin.spec import check_ladder, ladder
from muntin.times import US_PER_SECOND as SECOND


def test_ladders():
    assert ladder(10 * SECOND)[:3] == (60 * SECOND, 600 * SECOND, 3600 * SECOND)
    check_ladder(10, (60, 600))
    with pytest.raises(BadArgument, match=r"^rollups: .* not a multiple"):
        check_ladder(10, (60, 90))
