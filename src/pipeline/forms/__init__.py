"""What a request brings along: form fields, converted; uploads; and the parameters of views that they fill."""
