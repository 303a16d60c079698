pytest_plugins = ["pipeline.testing.plugin"]
