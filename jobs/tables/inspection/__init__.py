"""What a user sees of tables: branches, snapshots and panes as of a run, compared, and what is damaged."""
