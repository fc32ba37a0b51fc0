"""Permission prompts in the cell that waits for them: said, asked where one can type, and answered."""
