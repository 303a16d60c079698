"""A publishing pipeline for WSGI: ordered elements, declared in an ini, around an object publisher."""

from pipeline.composition import Pipeline, element
from pipeline.http.redirects import redirect
from pipeline.rendering import render
from pipeline.request import Request
from pipeline.response import Response
from pipeline.views import view

__version__ = "0.2.0.dev0"

__all__ = ["Pipeline", "Request", "Response", "element", "redirect", "render", "view"]
