"""A type of results: views may return a ``Temperature``."""

from pipeline.interfaces import IResult
from pipeline.views import adapter, view


class Temperature(float):
    """Degrees Celsius."""


@adapter(Temperature, IResult)
def result(value):
    """Return what sends a temperature."""
    return lambda request, response: response.plain("200 OK", f"{value:.1f} degrees")


@view(context=dict)
def weather(context, request):
    """Show the temperature."""
    return Temperature(21)
