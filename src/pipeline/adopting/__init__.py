"""A site that exists: read, asked, written anew and compared."""
