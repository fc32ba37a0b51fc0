"""``python -m suzent_jupyter.cli``."""

from . import main

main()
