"""How ``pipeline serve`` runs each server: one module for each, with ``serve(choice, listener, app)``."""
