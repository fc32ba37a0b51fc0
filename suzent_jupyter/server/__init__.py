"""The gateway on Tornado: inside a Jupyter server, and alone on its own port."""
