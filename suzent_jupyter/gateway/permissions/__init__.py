"""Permission prompts: who is asked before something runs, what they answer, and how long that is remembered."""
