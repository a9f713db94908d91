"""Rows of the state tables as a reader asks for them: by key and time, page by page, as files."""
