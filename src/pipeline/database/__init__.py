"""Code that the elements of databases share: transactions, outages, MariaDB."""
