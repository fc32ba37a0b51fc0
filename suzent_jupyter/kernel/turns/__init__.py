"""A peer's answer in a notebook: read as it comes, drawn, kept."""
