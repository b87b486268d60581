"""Which panes make a window: pure functions and small state machines; no I/O, no clock."""
