"""Tests of the stack. This makes them a package, so that the stack ends with their last test."""
