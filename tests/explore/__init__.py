"""An explorer of the real code: whoever meets whomever at one table, in whatever order, and however late.

Each actor is a greenlet that runs one operation of the library, or one step of another tool, over the doubles of store
and metastore. A call of a double is a *point*: there an actor may be paused while another goes on, die, or have its
request fail, be applied without an answer, or be applied late. A *schedule* names the actors in the order in which they
begin, and its *deviations* from one after the other:

======================= ==================================================================================
at the n-th point       what happens
======================= ==================================================================================
``0@12>1``              actor 0 is paused at its 12th point, and actor 1 goes on: a preemption
``0@12>>1``             an hour later: claims are over, requests under way may still be applied
``0@12>>>1``            ten days later: requests under way have expired
``0@12>>>!1``           ten days later, and the clock of actor 0 stood still: a preemption and a fault
``0@12~``               the oldest late request arrives: a preemption
``0@12!death``          actor 0 is gone before the call
``0@12!error``          the call fails and is never applied
``0@12!lost``           the call is applied (a point after it), its answer is lost
``0@12!misreported``    the metastore applies the call, and answers that it has refused it
``0@12!late``           the call fails, and is applied up to a day later; ``!late-death``: and actor 0 is gone
``0@12!twice``          the call is applied, and once more up to a day later
======================= ==================================================================================

A point *before* a call that changes something is a request under way; one *after* it, or before a call that reads, is a
process that pauses.

A schedule begins with the kind of its table, unless it is partitioned and its metastore switches all partitions in one
call: ``root: append, recover: 0@12>1``.

==================== ===================================================================================================
kind                 what it is
==================== ===================================================================================================
``root``             an unpartitioned table: it is its own only partition, and another tool's file lies in its root. Who
                     overwrites partitions elsewhere overwrites the table here
``uncompared root``  the same where the metastore compares nothing before it sets a table, as Hive 3.1 does
``batches``          over the product's own gateway to Glue, one partition a call: an actor is paused, or gone,
                     between two partitions of a switch. ``misreported`` is a call that was applied and refused for
                     load. A role ``with d2 hidden`` is not shown all; answers of one ``with old answers`` are old
``mirrored``         a Delta mirror follows all who change the table, until it is dropped or the table is handed over
==================== ===================================================================================================

============== ===========================================================================================
file           what it has
============== ===========================================================================================
`actors`       every operation with its arguments, by name. A new operation: one line there
`reporting`    operations whose reports are taken at their word, and what befalls a table from outside
`promises`     what these reports have said, held against the table then and later
`whole_set`    public calls and kinds of entries, which a test compares with what actors do
`scenarios`    who meets whom: all pairs, and triples of those that resolve each other
`schedule`     schedules and deviations, as text and as values
`worlds`       the kinds of table: which doubles, which partitions, what all find done. A new kind: one line there
`run`          carries one schedule out; the fuzzer's simulation and oracle do all but the switching
`search`       which schedules: drawn from a seed within a bound of preemptions and faults, or all
`story`        a failing schedule, shortened, as a person reads it
`mutation`     a broken rule of the real code, with who notices it: actors who are explored, a schedule, or a test;
               ``*mutations`` have them, ``rules.md`` says what they do not have
`unit`         runs the tests that notice a broken rule
`traces`       all calls of each schedule, recorded before a change and compared after it
============== ===========================================================================================

What is left out: switches at calls that commute with all that the other does (another place, or both read; entries and
outcomes that are there never change), and whatever follows from a schedule that has come to the same as one before it.
After each schedule everything late arrives, and a recovery, an append and, weeks later, a vacuum follow; runs that end
in a state that was seen before are spared that.

The oracle (``tests/fuzz/oracle.py``) is a dictionary of rows, kept from outside: each change of the metastore, and each
file that comes to a place where readers look, is compared with it. It takes callers' words: "published" has been seen
by readers, and is not on record as abandoned; "published already" too, for every partition; an error, or "discarded",
is never seen afterwards; a key is applied once. What older versions show was seen then. Nothing is left behind.
It takes reports at their word, too: no object holds a row of which a certificate is complete; what is "freed" is gone;
what was in doubt when a ``recover`` began has ended; a mirror that is "in step" shows what readers of the table see;
after "handed over" no version shows that was claimed later; a call that only looks changes nothing.

By hand::

    python -m tests.explore --actors "append, rollback" --schedules 1000 [--preemptions 3 --faults 2] [--seed 7]
    python -m tests.explore --repeat "publish, discard: 0@32>1"
    python -m tests.explore --only pairs --schedules 20 --part 0/4 [--kind root]
    python -m tests.explore --broken "a correction claims"

A mutation names a function, a text in it and what stands there instead, so it follows the code until that text goes:
then its test says so. To add one, find actors whose exploration notices it by hand with ``--broken``. Where many
things must have happened first, an actor has them done ``before``, so that few deviations are left to find.
"""
