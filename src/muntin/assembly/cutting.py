"""How what is merged becomes pieces: by shard where a summary says so and it is large, by time, and
in files of their own where they are large.

What is small is not cut: a stream's batches stay one small piece each, which compaction brings
together; only where that has grown large it is cut by shard. So nothing is shuffled or written
beside the ledger while there is little.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muntin.kinds import SegmentSpec
from muntin.ledger.base import Ledger
from muntin.ledger.files import PayloadFolder
from muntin.ledger.records import Payload
from muntin.segments.codec import cut, encode
from muntin.segments.shards import split
from muntin.segments.table import Segment
from muntin.spec import Pipeline

CUT_BYTES_MIN = 32 << 20  # in memory: some 4 to 8 MB as it is stored
FILE_BYTES_MIN = 1 << 20  # smaller payloads lie in the ledger itself


@dataclass(frozen=True, slots=True)
class Cutting:
    """How one summary is cut. Goes to executors.

    `shards`: 1: it is not.
    `folder`: where large payloads are written; without, the ledger holds all of them.
    """

    summary: str
    shards: int = 1
    folder: PayloadFolder | None = None
    cut_bytes: int = CUT_BYTES_MIN
    file_bytes: int = FILE_BYTES_MIN

    def pieces(self, segment: Segment) -> Iterator[Segment]:
        """Shard by shard, where it is large."""
        large = segment.nbytes >= self.cut_bytes
        for shard in split(segment, self.shards) if large else [segment]:
            yield from cut(shard)

    def payload(self, segment: Segment) -> Payload:
        """The bytes of a piece, or the file that it was written to."""
        payload = encode(segment)
        if self.folder is None or len(payload) < self.file_bytes:
            return payload
        return self.folder.write(f"{self.summary}-{segment.shard}", payload)


def cuttings_of(pipeline: Pipeline, ledger: Ledger) -> Mapping[str, Cutting]:
    """Of each summary that has panes; SpecError where shards have no place for their files."""
    specs = {
        name: spec for name, spec in pipeline.summaries.items() if isinstance(spec, SegmentSpec)
    }
    folder = None
    if any(spec.shards for spec in specs.values()):
        folder = ledger.payload_folder(pipeline.name, pipeline.payloads)
    return {
        name: Cutting(
            name, spec.shards or 1, folder if spec.shards else None, CUT_BYTES_MIN, FILE_BYTES_MIN
        )
        for name, spec in specs.items()
    }
