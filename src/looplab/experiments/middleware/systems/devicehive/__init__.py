"""DeviceHive, the middleware that the paper measured, out of its published images.

Its adapter was driven against the real programs. Their images could not be pulled, so the tests use a double.
`Dockerfile` and `compose.yaml` are beside this file.
"""
