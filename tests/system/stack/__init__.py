"""Tests of the stack, as a package, so that the stack ends with their last test."""
