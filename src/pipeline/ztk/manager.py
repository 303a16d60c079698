"""The name of the manager in the ini of 0.1.0: ``manager = pipeline.ztk.manager:ImplicitManager``."""

from pipeline.toolkit.manager import ImplicitManager

__all__ = ["ImplicitManager"]
