"""The durable table of pane summaries: bytes under keys, committed once, fenced by epoch."""

from muntin.ledger.base import Ledger as Ledger
from muntin.ledger.base import View as View
from muntin.ledger.base import Writer as Writer
from muntin.ledger.open import open_ledger as open_ledger
from muntin.ledger.records import Batch as Batch
from muntin.ledger.records import ClosedWindow as ClosedWindow
from muntin.ledger.records import Command as Command
from muntin.ledger.records import Coverage as Coverage
from muntin.ledger.records import Made as Made
from muntin.ledger.records import Partial as Partial
from muntin.ledger.records import Piece as Piece
from muntin.ledger.records import PipelineInfo as PipelineInfo
from muntin.ledger.records import Rejected as Rejected
from muntin.ledger.records import State as State
from muntin.ledger.records import Stored as Stored
from muntin.ledger.records import TrendPoint as TrendPoint
from muntin.ledger.records import check_name as check_name
from muntin.ledger.slices import Slices as Slices
