"""What is computed for clients: statements, and lists that may be long. Bytes come out.

It runs wherever the ledger can be read: in a process of its own (`worker.py`) for a ledger in a
file, in a thread for one in memory. Sizes are looked at before and while bytes are made.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from io import BytesIO
from tempfile import SpooledTemporaryFile, gettempdir
from typing import IO, Any

import pyarrow as pa

from muntin.errors import LedgerError, SelectError
from muntin.ledger.records import ClosedWindow
from muntin.reading.amounts import catalogue, events_over_time
from muntin.select.listing import example_item
from muntin.select.result import Result
from muntin.select.values import json_column, rows_of
from muntin.server.postgres.answers import PostgresAnswers
from muntin.server.problems import RefusalError, problem, status_of
from muntin.server.reader import Reader
from muntin.server.state import spec_number
from muntin.times import instant_text

ARROW = "application/vnd.apache.arrow.stream"
JSON = "application/json"
BATCH_ROWS = 65_536  # of one Arrow record batch
PIECE_VALUES = 10_000  # of JSON, written at once
INLINE_BYTES = 256 << 10  # of an answer that is kept in memory; longer ones are in a file


@dataclass(frozen=True, slots=True)
class Question:
    """One thing to compute. `name`: a method of `Answering`. `arguments`: of that method, as JSON
    values. `bytes_max`: of the answer."""

    name: str
    arguments: Mapping[str, Any]
    bytes_max: int

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


class Answering:
    """Thread-safe where the reader is."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def answer(self, asked: Question) -> IO[bytes]:
        """The answer's bytes, from the start: in memory where they are few, else in a file. Raises
        MuntinError."""
        out = SpooledTemporaryFile(INLINE_BYTES)  # noqa: SIM115 (the caller's to close)
        try:
            for piece in within(asked.bytes_max, getattr(self, asked.name)(**asked.arguments)):
                try:
                    out.write(piece)
                except OSError as full:
                    said = f"the server cannot keep this answer in {gettempdir()}: {full.strerror}"
                    remedy = "free space there, or add LIMIT"
                    raise RefusalError(503, "busy", said, remedy) from full
        except BaseException:
            out.close()
            raise
        out.seek(0)
        return out

    def sql(self, text: str, form: str, rows_max: int) -> Iterator[bytes]:
        result = self._reader.engine.sql(text)
        if form == JSON and len(result) > rows_max:
            said = f"{len(result):,} rows; at most {rows_max:,} come as JSON"
            raise RefusalError(400, "too_large", said, f"add LIMIT, or send Accept: {ARROW}")
        return arrow_pieces(result) if form == ARROW else json_pieces(result)

    @cached_property  # most servers never need it
    def _postgres(self) -> PostgresAnswers:
        return PostgresAnswers(self._reader)

    def postgres(self, **asked: Any) -> Iterator[bytes]:
        return self._postgres.answer(**asked)

    def on_window(self, text: str, window: Mapping[str, Any]) -> Iterator[bytes]:
        return json_pieces(self._reader.on_window(text, ClosedWindow(**window)))

    def check(self, text: str) -> Iterator[bytes]:
        self._reader.engine.check(text)
        return iter(())

    def followed(self, text: str) -> Iterator[bytes]:
        yield self._reader.followed(text).encode()

    def windows(
        self, summary: str | None = None, limit: int = 1_000, **which: Any
    ) -> Iterator[bytes]:
        if summary is not None:
            self._reader.pipeline_of(summary)
        found = self._reader.ledger.windows(summary, limit=limit, **which)
        yield encoded({"windows": [window_json(window) for window in found]})

    def rejected(self, pipeline: str = "", **which: Any) -> Iterator[bytes]:
        self._reader.pipeline(pipeline)
        records = self._reader.ledger.rejected(pipeline, **which)
        shown = [
            {"number": n, **asdict(record), "raw": record.raw.decode("utf-8", "replace")}
            for n, record in records
        ]
        reasons = self._reader.ledger.rejected_reasons(pipeline)
        yield encoded({"reasons": reasons, "rejected": shown})

    def history(
        self, pipeline: str = "", start: int | None = None, end: int | None = None
    ) -> Iterator[bytes]:
        yield encoded(
            events_over_time(self._reader.ledger, self._reader.pipeline(pipeline), start, end)
        )

    def catalogue(self) -> Iterator[bytes]:
        yield encoded({"summaries": catalogue(self._reader.ledger, self._reader.pipelines())})

    def summaries(self) -> Iterator[bytes]:
        reader = self._reader
        known, standing = reader.known()
        windows = {n: s.window.kind if s.window else None for n, s in reader.specs().items()}
        summaries = [
            {
                "name": name,
                "kind": info.kind,
                "pipeline": reader.pipeline_of(name),
                "keys": [list(key) for key in info.keys],
                "indicators": list(info.indicators),
                "by": list(info.by),
                "parts": list(info.parts),
                "sketched": info.sketched,
                "windows": windows.get(name),
                "ask": example_item(info),
            }
            for name, info in known.items()
        ]
        of = {n: p for p in reader.pipelines().values() for n in p.queries}
        queries = [
            {
                "name": name,
                "select": info.select,
                "on": of[name].queries[name].on if name in of else "window",
                "pipeline": of[name].name if name in of else None,
            }
            for name, info in standing.items()
        ]
        specs = {info.name: spec_number(info) for info in reader.ledger.pipelines()}
        yield encoded({"summaries": summaries, "queries": queries, "specs": specs})


def json_pieces(result: Result) -> Iterator[bytes]:
    """What `Result.to_json` writes, piece by piece: never more than some rows at once."""
    about = {"columns": result.columns, "types": [str(t) for t in result.table.schema.types]}
    yield encoded(about)[:-1] + b', "rows": ['
    step = max(1, PIECE_VALUES // max(1, result.table.num_columns))
    for at in range(0, len(result), step):
        rows = rows_of(result.table.slice(at, step), json_column)
        yield (b", " if at else b"") + encoded(rows)[1:-1]
    yield b"], " + encoded(result.particulars())[1:]


def within(bytes_max: int, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces, as they are made. Raises RefusalError: they are longer in all; no more than that
    was made."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > bytes_max:
            said = f"the result has more than {bytes_max:,} bytes"
            remedy = "add LIMIT or WHERE; POST /query answers more than is pushed"
            raise RefusalError(400, "too_large", said, remedy)
        yield piece


def arrow_pieces(result: Result) -> Iterator[bytes]:
    """The Arrow IPC stream; the particulars are in the schema's metadata."""
    table = result.to_arrow()
    sink = BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        for batch in table.to_batches(max_chunksize=BATCH_ROWS):
            stream.write_batch(batch)
            yield sink.getvalue()
            sink.seek(0)
            sink.truncate()
    yield sink.getvalue()


def error_data(error: BaseException) -> dict[str, Any]:
    """An error as it is sent to another process."""
    return {**problem(error), "status": status_of(error)}


def error_of(data: Mapping[str, Any]) -> Exception:
    """The error that another process sent: it reads the same to clients."""
    code, message, remedy = data["code"], data["message"], data["remedy"]
    if code == "internal":
        return RuntimeError("a process that answers statements failed; the log says where")
    if code == "ledger":
        return LedgerError(message)
    if data["status"] != 400:
        return RefusalError(data["status"], code, message, remedy)
    return SelectError(
        message, code=code, position=data["position"], length=data["length"], remedy=remedy
    )


def window_json(window: ClosedWindow) -> dict[str, Any]:
    """A closed window as JSON values, times as ISO 8601."""
    plain = asdict(window)
    plain["fill"] = dict(window.fill)
    for name in ("start", "end", "closed_at"):
        plain[name] = instant_text(plain[name])
    return plain


def encoded(value: Any) -> bytes:
    """JSON as `Result.to_json` writes it."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
