"""A watcher: each part of the pipeline that a request passes is named in a header."""

from pipeline.composition import Offers, element


def between(step, offers):
    def named(request, response):
        offers.handler(request, response)
        response.headers.add("X-Passed", str(step))

    return Offers(named, **offers.attributes)


@element(between=between)
def watched(next):
    """Name the parts that a request passes."""
    return next
