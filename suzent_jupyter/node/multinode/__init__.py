"""The device's end of ``/ws/gateway``: a key instead of a token, prompts to answer, and calls to other nodes."""
