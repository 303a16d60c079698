"""Who somebody is and what they may do: authentication, sessions, passwords, log-in, and the policy."""
