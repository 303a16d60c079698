"""The fields of forms: read, converted, and handed to the parameters of views; and uploaded files."""
