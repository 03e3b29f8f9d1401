"""What users give, as nodes: arrays, numbers and containers; and what a trace meets around it."""
