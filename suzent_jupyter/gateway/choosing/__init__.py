"""Which node a prompt goes to: what each kind of caller may choose among, and the model that is asked."""
