"""``jupyter suzent …``: the gateway and its devices from a terminal."""


def main() -> None:
    """Run the command line; the console script ``jupyter-suzent``."""
    try:
        from .app import app

        app()
    except KeyboardInterrupt:  # while the modules load
        raise SystemExit(130) from None
