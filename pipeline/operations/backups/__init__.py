"""``oriel backup`` and ``oriel restore``: copy a data directory to a backup and back.

backup     reads a data directory while its pipeline runs. Writes the files of one batch per
           pipeline, and a manifest with the size and SHA-256 of each file
restore    compares the files with the manifest, and writes them into a new data directory
"""
