"""The measures of a request, and what hands them on: the log in JSON, Prometheus, OpenTelemetry."""
