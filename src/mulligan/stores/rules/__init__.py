"""The rules of the contract, written once: what an operation reads, decides, and writes.

A rule is a coroutine over a `Tx`, which is one transaction of one store. It awaits reads and
consequences only. On a store in this process nothing that it awaits suspends, and `at_once` runs
it to its end. Over a network each `await` may be a round trip.
"""
