"""A site on copies of its databases, watched at each point, which touches nothing: for ``prove`` and others."""
