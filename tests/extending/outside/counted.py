"""An element with state and a metric: visits are counted, and a header says how many there were."""

from prometheus_client import Counter

from pipeline.composition import element


@element
def counted(next):
    """Count the requests of this process."""
    visits, metric = [], Counter("visits", "Requests of this process.")

    def counted(request, response):
        next(request, response)
        visits.append(None)
        metric.inc()
        response.headers["X-Visits"] = str(len(visits))

    return counted
