"""A month of flights, written by the last state of the product before `from slackwater import …`."""
