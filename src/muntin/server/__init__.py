"""Live answers from a ledger: HTTP, WebSocket, dashboard. Reads ledgers; never imports `spark`."""
