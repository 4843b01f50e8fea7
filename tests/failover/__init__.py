"""Runs during which a server is killed, or gives its keys away, while jobs run.

python -m tests.failover cluster --jobs 50000
python -m tests.failover sentinel --jobs 50000
python -m tests.failover cluster --jobs 50000 --wait-replicas 0
python -m tests.failover postgres --jobs 50000 --away 60
"""
