"""``oriel backup`` and ``oriel restore``."""
