"""What was published when, what it was before, and why it changed; runs and pipelines side by side."""
