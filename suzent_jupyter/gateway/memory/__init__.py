"""What agents and people keep for later: three levels, each with an owner and a full-text index of its own."""
