"""The web pages: they draw what `slackwater.inspection` answers, and change nothing.

Knows no Airflow. Every view has a URL of its own, and everything that a browser loads comes from here.
"""
