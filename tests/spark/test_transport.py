"""What travels arrives."""

from hypothesis import given
from hypothesis import strategies as st

from muntin.spark.transport import COMPRESSED_FROM_BYTES, packed, unpacked


@given(st.binary(max_size=50), st.integers(1, 300))
def test_payloads_arrive_as_they_left(part, times):
    assert unpacked(packed(part * times)) == part * times


def test_large_ones_are_smaller_on_the_way():
    payload = b"muntin" * COMPRESSED_FROM_BYTES
    assert len(packed(payload)) < len(payload) / 10
