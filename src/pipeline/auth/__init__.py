"""Users and permissions: authentication, sessions, passwords, log-in, and the policy."""
