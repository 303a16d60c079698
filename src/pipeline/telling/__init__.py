"""Parts, findings and errors in words, without secrets."""
