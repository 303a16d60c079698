"""The table of R13: who touches a database, when, by what means, and how the request is answered.

``axes`` has the axes, and which of their combinations are not rows. ``model`` derives from the axes whether a row
is allowed. ``objects`` and ``tables`` touch a database by each of the means. ``play`` brings about one row in the
site of ``site``, and ``run`` gathers the facts. ``judge`` compares them with the model. It reads the database
without the pipeline.
"""
