"""The top k objects over distributed sites, with few messages: a protocol without I/O.

`Monitor` is a site's half, `Coordinator` the other; `encode` and `decode` make bytes of their
messages; `simulate` and `compare` try them on streams. How it works and what it guarantees:
docs/topk.md.
"""

from muntin.topk.answer import Answer as Answer
from muntin.topk.answer import Item as Item
from muntin.topk.codec import MESSAGE_BYTES_MAX as MESSAGE_BYTES_MAX
from muntin.topk.codec import decode as decode
from muntin.topk.codec import encode as encode
from muntin.topk.coordinator import Coordinator as Coordinator
from muntin.topk.hybrid import CostModel as CostModel
from muntin.topk.messages import NOTHING as NOTHING
from muntin.topk.messages import Alert as Alert
from muntin.topk.messages import Busy as Busy
from muntin.topk.messages import Calm as Calm
from muntin.topk.messages import Factors as Factors
from muntin.topk.messages import Hello as Hello
from muntin.topk.messages import Message as Message
from muntin.topk.messages import Object as Object
from muntin.topk.messages import Push as Push
from muntin.topk.messages import Reply as Reply
from muntin.topk.messages import Request as Request
from muntin.topk.messages import Watch as Watch
from muntin.topk.monitor import Monitor as Monitor
from muntin.topk.policy import Policy as Policy
from muntin.topk.simulation import Simulation as Simulation
from muntin.topk.simulation import compare as compare
from muntin.topk.simulation import plot as plot
from muntin.topk.simulation import simulate as simulate
