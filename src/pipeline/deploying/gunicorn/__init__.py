"""gunicorn with threads.

It drains, reloads without loss and takes its socket from systemd.
"""

PROGRAM = ("gunicorn", "pip install 'wsgi-pipeline[gunicorn]'", "gunicorn")
