"""Files too large for frames: kept once by fsspec, named by expiring addresses, gone when nobody needs them."""
