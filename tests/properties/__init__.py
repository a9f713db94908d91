"""Promises that hold for every pipeline, input and cut, held by random search through the real planner,
engine and codecs.
"""
