"""This gateway as a client of others."""
