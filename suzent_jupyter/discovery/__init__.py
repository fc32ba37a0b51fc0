"""Finding gateways on the local network and the tailnet."""
