"""A model of a machine, its Node and all that happens to them: the program is real, the world around it is not.

Time is a number here. Files are real, in a temporary folder.
"""
