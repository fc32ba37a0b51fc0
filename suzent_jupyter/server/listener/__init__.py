"""The listener: the node gateway at the root of its own port, and nothing of Jupyter.

It is the only thing ever opened to a network. So what guards it stands here as well: limits on connections, the names
it may be reached under, and what it believes of local programs.
"""
