"""The machine: operators, timer services and queues that run windows element by element."""
