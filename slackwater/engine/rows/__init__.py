"""Source rows as whole columns: which of them a replay uses, their order, keys and watermarks."""
