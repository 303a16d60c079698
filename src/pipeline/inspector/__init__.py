"""The inspector: what it notes of requests, and its pages."""
