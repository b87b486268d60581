"""PostgreSQL's protocol (version 3): the same statements, for clients that speak no HTTP."""
