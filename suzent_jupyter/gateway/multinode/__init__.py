"""The gateway's end of ``/ws/gateway``: nodes that prove who they are with a key, and people's browsers."""
