"""What each kind of caller may choose among, and the model that is asked."""
