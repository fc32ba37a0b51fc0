"""What the tests share: a bare device, gateways to talk to, and ways to wait."""
