"""The top k objects over distributed sites, with few messages: a protocol without I/O.

`Monitor` is a site's half, `Coordinator` the other; `encode` and `decode` make bytes of their
messages; `simulate` and `compare` try them on streams. How it works and what it guarantees:
docs/topk.md.
"""

from muntin.topk.answer import Answer, Item
from muntin.topk.codec import MESSAGE_BYTES_MAX, decode, encode
from muntin.topk.coordinator import Coordinator
from muntin.topk.hybrid import CostModel
from muntin.topk.messages import (
    NOTHING,
    Alert,
    Busy,
    Calm,
    Factors,
    Hello,
    Message,
    Object,
    Push,
    Reply,
    Request,
    Watch,
)
from muntin.topk.monitor import Monitor
from muntin.topk.network import Faults
from muntin.topk.plot import plot
from muntin.topk.policy import Policy
from muntin.topk.simulation import Simulation, compare, simulate

__all__ = [
    "MESSAGE_BYTES_MAX",
    "NOTHING",
    "Alert",
    "Answer",
    "Busy",
    "Calm",
    "Coordinator",
    "CostModel",
    "Factors",
    "Faults",
    "Hello",
    "Item",
    "Message",
    "Monitor",
    "Object",
    "Policy",
    "Push",
    "Reply",
    "Request",
    "Simulation",
    "Watch",
    "compare",
    "decode",
    "encode",
    "plot",
    "simulate",
]
