"""State of windows and functions: descriptors, user-facing handles, and back ends behind one Protocol."""
