"""Steps of a Python loop, recorded one after the other, become one loop again. Start with
`rerolling.py`.
"""
