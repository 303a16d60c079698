"""What the elements of databases share: transactions, outages, MariaDB."""
