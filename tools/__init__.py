"""Commands that write documentation and measure tests. The product does not need them."""
