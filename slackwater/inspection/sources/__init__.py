"""What a table or folder is, and what a pipeline could make of it: the look that a user takes first."""
