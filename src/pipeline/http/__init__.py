"""Parts of HTTP that the core does not need: conditional requests, files, error pages, hosts, the head of HTML."""
