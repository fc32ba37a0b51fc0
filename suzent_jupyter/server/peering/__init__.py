"""The gateways this one controls, or is controlled by."""
