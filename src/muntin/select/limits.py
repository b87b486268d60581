"""Every limit of a statement, in one place, each with its reason."""

from dataclasses import dataclass

ASK_LESS = "split it, or ask for less at once"  # the remedy of what is too large


@dataclass(frozen=True, slots=True)
class Limits:
    """What one statement may cost. Reaching a limit is a `SelectError` with code "limit"."""

    text_bytes: int = 32 << 10
    """Everything below is linear in this."""
    tokens: int = 1000
    """Bounds the parser's work before it starts. Constants that stand in lists are not counted."""
    depth: int = 32
    """Brackets, CASE and operators within each other; keeps recursion far from Python's limit."""
    nodes: int = 256
    """Of the syntax tree, names and constants that stand in lists not counted."""
    list_items: int = 100
    """Columns of one SELECT, arguments of one function, or values in one list of more than
    constants."""
    list_constants: int = 5000
    """Constants that stand in lists, all together: programs write these, as in IN (1, 2, ...)."""
    literal_bytes: int = 1024
    """One string."""
    windows: int = 16
    """FROM items that load something."""
    reads: int = 64
    """FROM items once every CTE is put where it is used: CTEs over CTEs double at each step."""
    pieces: int = 64
    """Strings that || and concat join into one, through subqueries too: a limit on its length."""
    seconds: float = 10.0
    """In DuckDB, after which the statement is interrupted."""
    memory_bytes: int = 1 << 30
    """Of DuckDB, for all statements of an engine that run at the same time."""
    result_rows: int = 5_000_000
    result_bytes: int = 1 << 30
    cache_bytes: int = 1 << 30
    """Arrow tables kept warm between statements."""
    cache_seconds: float = 600.0
    """Since such a table was asked for the last time."""
    concurrent: int = 8
    """Statements that run in DuckDB at the same time; others wait for their turn."""
