"""The checks of ``pipeline check`` that need a module of their own."""
