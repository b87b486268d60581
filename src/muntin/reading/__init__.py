"""From a ledger to merged summaries and to SELECT's catalog; reads only."""
