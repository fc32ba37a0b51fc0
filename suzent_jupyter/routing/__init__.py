"""Which device shall carry out a prompt: language model, keywords, recency."""
