"""Prompts and files between gateways."""
