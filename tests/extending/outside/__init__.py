"""A package that adds six things to wsgi-pipeline, each as little as it can be."""
