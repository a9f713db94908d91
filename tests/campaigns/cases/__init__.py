"""The cases of the campaign of bad input, by what is bad about it."""
