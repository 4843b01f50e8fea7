"""Mutation testing: change the code a little, and see whether a test notices.

Lines that tests run are not yet lines that tests check. A mutant is one function with one small
change; it is killed if a test fails on it, and survives if none does. Each survivor is a test that
is missing, code that is not needed, or a change that makes no difference.
"""
