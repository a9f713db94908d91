"""What every page stands in: links, templates, safety, errors, and who may see which pipeline."""
