"""An ini as a running site, with watchers linked in, and the command line that names it."""
