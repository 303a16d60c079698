"""``pipeline greet NAME``: say hello."""


def main(arguments):
    """Run the command; return its exit status."""
    print(f"Hello, {arguments[0]}!")
    return 0
