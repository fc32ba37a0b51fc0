"""Answering prompts: agents, turns and their events, conversations, the inbox."""
