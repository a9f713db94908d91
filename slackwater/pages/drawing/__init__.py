"""What pages are drawn with: tables, plots and small bars, as values that templates write."""
