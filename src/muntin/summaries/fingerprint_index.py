"""Fingerprint: membership of keys and rank of a number, over the same records.

State       a dynamic Bloom filter over keys, a q-digest over a number (if one is given), and the
            exact range of the keys' hashes
Error       those of `DynamicBloom` and `DyadicQDigest`
Merge       with equal parameters, part by part; the range becomes the hull
Duplicates  harmless for membership, count each time for rank
Source      large-scale fingerprint queries by a global digest and local filters; here the filter
            hangs on the part of the data (a pane, a partition), not on the digest's nodes, where
            a question would meet one filter an ancestor
Limits      the range prunes only where records were placed by the hash of their key
"""

from typing import Any, ClassVar, Self

import numpy as np

from muntin.errors import BadArgument, CorruptSummary, how_many
from muntin.summaries.base import Estimate
from muntin.summaries.checks import array_of, check_alike
from muntin.summaries.dyadic_qdigest import DyadicQDigest
from muntin.summaries.dynamic_bloom import HEADROOM, DynamicBloom, ItemType, Mapped
from muntin.summaries.envelope import block, opened, seal
from muntin.summaries.order_maps import OrderMap


class Fingerprint(Mapped):
    """What keys there are, and between which ranks a number lies.

    Parameters
    ----------
    capacity, fpp, seed, headroom
        Of the `DynamicBloom` over the keys.
    domain : OrderMap, optional
        Of the number whose ranks are asked for; without one there is no digest.
    error : float
        Rank error that is never exceeded, as a fraction of the count; between 0 and 1.
    """

    kind: ClassVar[str] = "fingerprint"

    def __init__(
        self,
        capacity: int = 100_000,
        fpp: float = 0.01,
        seed: int = 0,
        headroom: int = HEADROOM,
        *,
        domain: OrderMap | None = None,
        error: float = 0.001,
    ) -> None:
        self._bloom = DynamicBloom(capacity, fpp, seed, headroom)
        self._digest = None if domain is None else DyadicQDigest.for_error(error, domain=domain)
        self._least, self._most = 2**64 - 1, 0

    @classmethod
    def of_hashes(
        cls,
        hashes: np.ndarray,
        fpp: float = 0.01,
        seed: int = 0,
        *,
        item_type: ItemType | None = None,
        capacity_min: int = 1,
        headroom: int = 1,
    ) -> Self:
        """Keys by their hashes, without a domain; as `DynamicBloom.of_hashes`."""
        made = cls.__new__(cls)
        made._bloom = DynamicBloom.of_hashes(
            hashes, fpp, seed, item_type=item_type, capacity_min=capacity_min, headroom=headroom
        )
        made._digest = None
        made._least, made._most = 2**64 - 1, 0
        made._stretch(hashes)
        return made

    @property
    def bloom(self) -> DynamicBloom:
        """The filter of the keys."""
        return self._bloom

    @property
    def digest(self) -> DyadicQDigest | None:
        """The digest of the ranked numbers; None where nothing is ranked."""
        return self._digest

    @property
    def parameters(self) -> dict[str, Any]:
        """What two fingerprints must share to be merged."""
        return self._bloom.parameters | (self._digest.parameters if self._digest else {})

    @property
    def count(self) -> int:
        """Keys seen, repeats included."""
        return self._bloom.count

    @property
    def keys(self) -> int:
        """Different keys seen (but those that were taken for others)."""
        return self._bloom.keys

    @property
    def nbytes(self) -> int:
        """Bytes in memory."""
        return self._bloom.nbytes + (self._digest.nbytes if self._digest else 0)

    @property
    def bits_per_key(self) -> float:
        """Bits that a key takes in the filter."""
        return self._bloom.bits_per_key

    @property
    def hash_range(self) -> tuple[int, int] | None:
        """Smallest and largest hash of the keys; None while there are none."""
        return (self._least, self._most) if self._least <= self._most else None

    def update(self, keys: Any, ranks: Any = None) -> None:
        """See records: their keys, and their numbers where the summary has a domain.

        Raises
        ------
        BadArgument
            As `DynamicBloom.update` and `DyadicQDigest.update`; nothing is seen then. `ranks`
            without a domain, or a domain without `ranks`, or of other lengths.
        """
        hashes, found = self._bloom._hashed(keys)
        if ranks is None and self._digest is not None:
            raise BadArgument("this fingerprint counts numbers, too: give `ranks`")
        if ranks is not None:
            digest, ranks = self._numbers, array_of(ranks, "rank")
            given = len(ranks) if ranks.ndim else 1
            if given != len(hashes):
                raise BadArgument(
                    f"{how_many(len(hashes), 'key')} and {how_many(given, 'rank')}: give each one"
                )
            digest.update(ranks)
        self._bloom.update_hashes(hashes, found)
        self._stretch(hashes)

    def update_hashes(self, hashes: np.ndarray, item_type: ItemType | None = None) -> None:
        """See keys by their hashes; only without a domain. uint64[n]."""
        if self._digest is not None:
            raise BadArgument("this fingerprint counts numbers, too: use `update`")
        self._bloom.update_hashes(hashes, item_type)
        self._stretch(hashes)

    def _stretch(self, hashes: np.ndarray) -> None:
        if len(hashes):
            self._least = min(self._least, int(hashes.min()))
            self._most = max(self._most, int(hashes.max()))

    def contains(self, keys: Any) -> np.ndarray:
        """bool[n]; as `DynamicBloom.contains`."""
        return self.contains_hashes(self._bloom.hashes(keys))

    def contains_hashes(self, hashes: np.ndarray) -> np.ndarray:
        """As `contains`, of keys that were hashed already."""
        found = self._bloom.contains_hashes(hashes)
        return found & (hashes >= np.uint64(self._least)) & (hashes <= np.uint64(self._most))

    def false_positive_rate(self) -> float:
        """Share of keys that are not there and are said to be, now."""
        return self._bloom.false_positive_rate()

    def quantile(self, q: Any) -> Estimate:
        """As `DyadicQDigest.quantile`."""
        return self._numbers.quantile(q)

    def rank(self, values: Any) -> Estimate:
        """As `DyadicQDigest.rank`."""
        return self._numbers.rank(values)

    @property
    def _numbers(self) -> DyadicQDigest:
        if self._digest is None:
            raise BadArgument("this fingerprint has no domain: it does not count numbers")
        return self._digest

    def merge(self, other: Self) -> None:
        """See what `other` saw; parameters must be the same."""
        check_alike(self, other)
        bloom = self._bloom.copy()
        bloom.merge(other._bloom)
        if self._digest is not None and other._digest is not None:
            self._digest.merge(other._digest)
        self._bloom = bloom
        self._least = min(self._least, other._least)
        self._most = max(self._most, other._most)

    def to_bytes(self) -> bytes:
        """Versioned bytes with a checksum."""
        hashes = np.array([self._least, self._most], "<u8").tobytes()
        digest = self._digest.to_bytes() if self._digest else b""
        return seal(self.kind, {}, hashes, block(self._bloom.to_bytes()), digest)

    @classmethod
    def _read(cls, data: bytes | memoryview, *, copy: bool) -> Self:
        fields, body = opened(data, cls.kind)
        fields.done()
        least, most = body.number(), body.number()
        made = cls.__new__(cls)
        made._bloom = DynamicBloom._read(body.block(), copy=copy)
        made._digest = DyadicQDigest.from_bytes(bytes(body.rest())) if body.left else None
        made._least, made._most = least, most
        is_empty = made._bloom.count == 0
        if (is_empty and (least, most) != (2**64 - 1, 0)) or (not is_empty and least > most):
            raise CorruptSummary("fingerprint: the range of hashes does not fit the filter")
        if made._digest and made._digest.count > made._bloom.count:
            raise CorruptSummary("fingerprint: the digest counted more records than the filter")
        return made
