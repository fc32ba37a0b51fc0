"""What runs a turn: agents, their memory and their tools."""
