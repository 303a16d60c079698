"""A site that exists: read, asked and written anew."""
