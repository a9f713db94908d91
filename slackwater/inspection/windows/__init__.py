"""The life of one window: its elements, its firings, its parked state, and what it waits for."""
