"""One file for each command. A file has its command's name."""
