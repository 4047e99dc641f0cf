"""What draws documentation out of the product; not part of it."""
