"""How objects are published: which kinds of objects can be walked, namespaces, JSON, XML-RPC, static resources."""
