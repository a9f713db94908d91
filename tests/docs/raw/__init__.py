"""Raw tables for the recipes of the guide "Your data", and how plain Python reads them. Not tests."""
