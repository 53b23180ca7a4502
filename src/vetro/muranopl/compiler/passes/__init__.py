"""Analysis of a method before its code is written: kinds of variables, leaf methods, in-place
updates.
"""
