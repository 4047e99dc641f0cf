"""The demo: 336,776 real flights, streamed into windows and served."""
