"""What a peer's or a node's agent answers, in a notebook: read as it comes, drawn, kept."""
