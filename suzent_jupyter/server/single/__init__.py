"""One gateway per ``data_dir``, however many servers a user runs.

A lock decides which server is the gateway; the others are its guests and forward what reaches their mount. They knock
at a door of their own on loopback, with a secret from a file only the user can read. When the gateway goes, one of them
takes its place.
"""
