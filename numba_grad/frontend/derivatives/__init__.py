"""Derivatives of functions: `grad` and its relatives, and rules of the user's own."""
