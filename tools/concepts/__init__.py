"""Write the pictures of the concept pages: ``python -m tools.concepts``."""
