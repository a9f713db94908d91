"""What windows and functions remember: descriptors, user-facing handles, and back ends behind one
Protocol.
"""
