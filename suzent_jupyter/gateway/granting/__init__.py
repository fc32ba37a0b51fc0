"""Control grants: asked for, approved, held to what they cover, counted, ended."""
