"""The commands. Each has its own file, except plan, apply and withdraw, which are in publish.py."""
