"""``make prove``: what was tried to break the promise, in one page and one JSON, and what was not tried.

==============  ================================================================
``proofs``      what is tried: each is a part with its figures
``report``      the page and the JSON
``test_prove``  both say what was tried, and a broken promise is told
==============  ================================================================
"""
