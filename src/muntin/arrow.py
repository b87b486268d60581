"""Arrow's compute functions, which its own module makes at run time and so no type checker sees."""

from __future__ import annotations

from typing import Any

import pyarrow.compute

pc: Any = pyarrow.compute
