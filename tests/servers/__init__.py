"""Private servers for tests: each on a free port, with its data in a directory of its own.

None of them is the one that the operating system may run. They are started when a test asks for
them, and stopped by process id.
"""
