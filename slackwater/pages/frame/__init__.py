"""The frame of every page: links, templates, safety, errors, and who may see which pipeline."""
