"""What writers of one table agree on: the order in which an operation reads, looks, claims and carries out.

``loop``  the one place that claims an entry

``docs/design/loop.md`` says what an operation answers, and why.
"""
