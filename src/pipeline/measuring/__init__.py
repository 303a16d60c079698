"""The measures of a request, and what hands them on: Prometheus, OpenTelemetry."""
