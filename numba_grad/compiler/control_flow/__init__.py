"""Loops and branches -> steps of a plan."""
