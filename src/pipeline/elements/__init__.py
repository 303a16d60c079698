"""The elements, one file each; they never import one another."""
