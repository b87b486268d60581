"""The demonstrations: real flights and generated taxi orders, replayed through Spark."""
